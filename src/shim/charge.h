// What the memory hooks do with the account: take, keep or give back bytes of a slice.
//
// A slice is an index into ControlPage::gpu; -1 (no tenant, or a GPU that is none of its own) is
// charged nothing and refused nothing. Any thread.
#pragma once

#include <cstdint>

#include "shim/account.h"
#include "shim/allocations.h"
#include "shim/session.h"

namespace divvy::shim {

// The slice that the calling thread's current context is on; -1 when this process is no tenant. A
// tenant with one slice sees one device, and then the driver need not be asked where it is; without
// a context its calls fail by themselves.
inline int charged_slice() {
  if (__builtin_expect(standing() != Standing::kTenant, false)) return -1;
  return one_slice() ? 0 : slice_of_current();
}
inline int charged_slice_of(CUdevice device) {
  return standing() == Standing::kTenant ? slice_of_device(device) : -1;
}

// False for -1, and after a fork until the child has joined.
inline bool account_of(int slice, SliceAccount* found) {
  const wire::ControlPage* page = control();
  if (slice < 0 || page == nullptr) return false;
  if (!account_seat(&found->page, &found->slot)) return false;
  found->limit = &page->gpu[slice];
  found->gpu = slice;
  return true;
}

// Bytes asked of the driver: taken from the slice first, and given back unless keep() is called.
class Reservation {
 public:
  // Inlined, because a call that is made once in a while pays for every line of code it touches.
  [[gnu::always_inline]] Reservation(int slice, uint64_t bytes) : slice_(slice), bytes_(bytes) {
    SliceAccount account;
    if (!account_of(slice, &account)) return;
    uint64_t in_use = 0;
    taken_ = take(account, bytes, &in_use);
    const uint64_t limit = account.limit->memory_limit.load(std::memory_order_relaxed);
    const bool edge = !taken_ || in_use + kEdge > limit;
    if (__builtin_expect(edge, 0)) look_closer(account, in_use);
    refused_ = !taken_;
  }
  ~Reservation() {
    if (taken_) give_back();
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // The slice has no room.
  [[nodiscard]] bool refused() const { return refused_; }
  void give_back();
  // The driver gave what was asked for.
  void keep() { taken_ = false; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint64_t kLarge = 1U << 20U;
  static constexpr uint64_t kEdge = 512U << 20U;

  // Before a refusal: like the driver itself, makes the pools of this process give up what they
  // keep, and sees whether its overhead is still as large as it was. Near the limit what the driver
  // took on its own (code that was loaded since) is measured anew, so that all together stays
  // inside.
  void look_closer(SliceAccount account, uint64_t in_use);

  int slice_;
  uint64_t bytes_;
  bool taken_ = false;
  bool refused_ = false;
};

void charge_slice(int slice, uint64_t bytes);
inline void uncharge_slice(int slice, uint64_t bytes) {
  SliceAccount found;
  if (bytes != 0 && account_of(slice, &found)) uncharge(found, bytes);
}
// The account follows a quantity that was `before` and is `now`.
void recharge_slice(int slice, uint64_t before, uint64_t now);

// What a program may be told about its slice. False when it has none there.
struct SliceMemory {
  uint64_t total;
  uint64_t free;
  uint64_t used;
};
bool slice_memory(int slice, SliceMemory* memory);

// More is in use than the slice has: its limit was lowered, or something came to more than
// expected.
bool slice_overfull(int slice);

// Memory by device pointer.
extern constinit AllocationTable g_pointers;

}  // namespace divvy::shim
