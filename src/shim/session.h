// This process as a tenant: its registration with the daemon and the pages it was given.
//
// The hooks of cuInit and nvmlInit call join() before the real call. With no DIVVY_SOCKET in the
// environment the process is no tenant and every hook passes straight through. All functions may be
// called from any thread.
#pragma once

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

// Registers once; later calls return the same answer, except that kUnreachable tries again.
Standing join();
Standing standing();

// Not null when standing() is kTenant. After the daemon was restarted the control page is another
// one, so the pointer is asked for anew each time; the old page stays mapped.
const wire::ControlPage* control();
// This process's slot and the page that it is in. False when there is none: no tenant, or a child
// that has not joined. Waits while the process moves to another slot, which it does when a daemon
// has forgotten it.
bool account_seat(wire::AccountPage** page, int* slot);

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
