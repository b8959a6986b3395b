#include "shim/account.h"

#include <sched.h>
#include <time.h>

namespace divvy::shim {
namespace {

// How long a process waits for what others have pending before it calls the slice full, and how
// long when nobody has: a call of another process that is just being settled may count twice.
constexpr uint64_t kPatienceNs = 50'000'000;
constexpr uint64_t kInstantNs = 50'000;
// A request below this part of the limit is counted before anybody has looked whether it fits:
// where it does not, it bothers others for an instant and by little, and where it does, one walk
// over the slots is enough.
constexpr uint64_t kSmallPart = 64;

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

struct Sum {
  uint64_t used = 0;
  uint64_t pending = 0;
};

Sum sum_of(const SliceAccount& slice) {
  Sum sum;
  uint32_t slots = slice.page->slot_high.load();
  if (slots > wire::kMaxProcesses) slots = wire::kMaxProcesses;
  for (uint32_t i = 0; i < slots; ++i) {
    const wire::AccountCell& cell = slice.page->slot[i].gpu[slice.gpu];
    sum.pending += cell.pending.load();
    sum.used += cell.used.load();
  }
  sum.used += slice.limit->uncounted_bytes.load(std::memory_order_relaxed);
  return sum;
}

void note_peak(wire::AccountCell& cell, uint64_t used) {
  uint64_t peak = cell.peak.load(std::memory_order_relaxed);
  while (used > peak && !cell.peak.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

}  // namespace

uint64_t bytes_in_use(const SliceAccount& slice) {
  const Sum sum = sum_of(slice);
  return sum.used + sum.pending;
}

uint64_t bytes_of_this_process(const SliceAccount& slice) { return slice.cell().used.load(); }

namespace {

// The slice is full, or others make it look so for a moment.
__attribute__((noinline)) bool take_patiently(const SliceAccount& slice, uint64_t bytes,
                                              uint64_t* in_use) {
  wire::AccountCell& cell = slice.cell();
  const uint64_t began = now_ns();
  for (;;) {
    const uint64_t limit = slice.limit->memory_limit.load(std::memory_order_relaxed);
    // No sum can make it fit, and a request beyond all sense must not wrap around.
    if (bytes > limit) break;
    cell.pending.fetch_add(bytes);
    const Sum sum = sum_of(slice);
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

}  // namespace

bool take(const SliceAccount& slice, uint64_t bytes, uint64_t* in_use) {
  const uint64_t limit = slice.limit->memory_limit.load(std::memory_order_relaxed);
  if (bytes <= limit / kSmallPart || (bytes <= limit && bytes_in_use(slice) <= limit - bytes)) {
    wire::AccountCell& cell = slice.cell();
    const uint64_t used = cell.used.fetch_add(bytes) + bytes;
    *in_use = bytes_in_use(slice);
    if (__builtin_expect(*in_use <= limit, 1)) {
      note_peak(cell, used);
      return true;
    }
    cell.used.fetch_sub(bytes);
  }
  return take_patiently(slice, bytes, in_use);
}

void charge(const SliceAccount& slice, uint64_t bytes) {
  wire::AccountCell& cell = slice.cell();
  note_peak(cell, cell.used.fetch_add(bytes) + bytes);
}

}  // namespace divvy::shim
