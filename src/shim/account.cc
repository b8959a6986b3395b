#include "shim/account.h"

#include <sched.h>
#include <time.h>

namespace divvy::shim {
namespace {

// How long a process waits for what others have pending before it calls the slice full, and how
// long when nobody has: a call of another process that is just being settled may count twice.
constexpr uint64_t kPatienceNs = 50'000'000;
constexpr uint64_t kInstantNs = 50'000;

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

bool fits(SliceAccount slice, uint64_t bytes, uint64_t limit) {
  return bytes <= limit && bytes_in_use(slice) <= limit - bytes;
}

void note_peak(wire::AccountCell& cell, uint64_t used) {
  uint64_t peak = cell.peak.load(std::memory_order_relaxed);
  while (used > peak && !cell.peak.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

bool take_patiently(SliceAccount slice, uint64_t bytes, uint64_t* in_use) {
  wire::AccountCell& cell = slice.cell();
  const uint64_t began = now_ns();
  for (;;) {
    const uint64_t limit = slice.limit->memory_limit.load(std::memory_order_relaxed);
    // No sum can make it fit, and a request beyond all sense must not wrap around.
    if (bytes > limit) break;
    cell.pending.fetch_add(bytes);
    const AccountSum sum = sum_of(slice);
    *in_use = sum.used + sum.pending;
    if (*in_use <= limit) {
      // Counted twice for an instant rather than not at all.
      note_peak(cell, cell.used.fetch_add(bytes) + bytes);
      cell.pending.fetch_sub(bytes);
      return true;
    }
    cell.pending.fetch_sub(bytes);
    const bool only_for_others_sake = sum.used + bytes <= limit;
    if (now_ns() - began >= (only_for_others_sake ? kPatienceNs : kInstantNs)) break;
    sched_yield();
  }
  cell.refused.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void charge(const SliceAccount& slice, uint64_t bytes) {
  wire::AccountCell& cell = slice.cell();
  note_peak(cell, cell.used.fetch_add(bytes) + bytes);
}

}  // namespace divvy::shim
