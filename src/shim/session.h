// This process as a tenant: its registration with the daemon and the pages it was given.
//
// The hooks of cuInit and nvmlInit call join() before the real call. With no DIVVY_SOCKET in the
// environment the process is no tenant and every hook passes straight through. All functions may be
// called from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "abi/cuda.h"
#include "wire/pages.h"

namespace divvy::shim {

enum class Standing : uint32_t {
  kUnknown = 0,  // join() was not called yet
  kNoTenant,     // not started under Divvy: pass everything through
  kTenant,       // control() and account_seat() are valid
  kRefused,      // the daemon said no (too many processes, tenant ended, versions)
  kUnreachable,  // the socket is named but nobody answers, for some seconds
};

// What hooks look at in every call. One cache line: between two calls the driver may have used all
// of a cache for itself.
struct alignas(64) SessionView {
  std::atomic<Standing> standing = Standing::kUnknown;
  std::atomic<bool> one_slice = false;
  std::atomic<const wire::ControlPage*> control = nullptr;
  // The account page and, in the low bits, the slot in it: they change together. 0 while the
  // process moves to another.
  std::atomic<uintptr_t> seat = 0;
};
extern constinit SessionView g_session_view;

static_assert(wire::kMaxProcesses <= 4096, "a slot fits below a page's address");
inline wire::AccountPage* seat_page(uintptr_t seat) {
  return reinterpret_cast<wire::AccountPage*>(seat & ~uintptr_t{4095});
}
inline uint32_t seat_slot(uintptr_t seat) { return static_cast<uint32_t>(seat & 4095); }

// Registers once; later calls return the same answer, except that kUnreachable tries again.
Standing join();
inline Standing standing() { return g_session_view.standing.load(std::memory_order_acquire); }

// Not null when standing() is kTenant. After the daemon was restarted the control page is another
// one, so the pointer is asked for anew each time; the old page stays mapped.
inline const wire::ControlPage* control() {
  return g_session_view.control.load(std::memory_order_acquire);
}
// The tenant has one slice: gpu_count of the control page, which never changes.
inline bool one_slice() { return g_session_view.one_slice.load(std::memory_order_relaxed); }

// Waits until the process has moved to another slot; 0 when it has none.
uintptr_t seat_after_move();
// This process's slot and the page that it is in. False when there is none: no tenant, or a child
// that has not joined. Waits while the process moves to another slot, which it does when a daemon
// has forgotten it.
inline bool account_seat(wire::AccountPage** page, int* slot) {
  uintptr_t seat = g_session_view.seat.load(std::memory_order_acquire);
  if (seat == 0) seat = seat_after_move();
  *page = seat_page(seat);
  *slot = static_cast<int>(seat_slot(seat));
  return seat != 0;
}

// After the real cuInit succeeded: learns which CUDA device is which slice. Idempotent.
void devices_known();

// Which slice (index into ControlPage::gpu) this device is, or -1: none was granted on it.
int slice_of_device(CUdevice device);
// The slice of the calling thread's current context, or -1.
int slice_of_current();
int slice_of_context(CUcontext context);

// What the driver holds for this process on the slice's GPU, measured by the daemon. False when
// nobody knows. A round trip to the daemon: for rare calls only (contexts, modules).
bool measure(int slice, uint64_t* bytes);

}  // namespace divvy::shim
