// A slice's memory: what the tenant's processes use, and whether more fits.
//
// There is no shared total. Each process writes its own cell of the account page, and memory in use
// is the sum over all cells, so a process may die at any instant and leave nothing to repair: the
// daemon clears its slot. To take memory a process first adds it to its cell and then sums; of two
// that do so at once, at least one sees the other. Where there is plainly room, or little is asked,
// it is added as used at once; otherwise as pending, and whoever finds the slice full because of
// what others have pending asks again.
//
// Pure arithmetic on the pages of wire/pages.h; any thread of any process of the tenant.
#pragma once

#include <cstdint>

#include "wire/pages.h"

namespace divvy::shim {

// One process's view of one slice.
struct SliceAccount {
  const wire::ControlGpu* limit;
  wire::AccountPage* page;
  int slot;
  int gpu;

  wire::AccountCell& cell() const { return page->slot[slot].gpu[gpu]; }
};

// Bytes in use: of all processes, asked for and not yet given, and what the daemon found besides.
struct AccountSum {
  uint64_t used = 0;
  uint64_t pending = 0;
};
inline AccountSum sum_of(const SliceAccount& slice) {
  AccountSum sum;
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
inline uint64_t bytes_in_use(const SliceAccount& slice) {
  const AccountSum sum = sum_of(slice);
  return sum.used + sum.pending;
}

// Bytes of this process's cell, without what is pending.
inline uint64_t bytes_of_this_process(const SliceAccount& slice) {
  return slice.cell().used.load();
}

// Whether so much more fits, as far as can be seen without asking for it.
bool fits(SliceAccount slice, uint64_t bytes, uint64_t limit);
// Where the slice is full, or others make it look so for a moment, or much is asked at once.
bool take_patiently(SliceAccount slice, uint64_t bytes, uint64_t* in_use);
void note_peak(wire::AccountCell& cell, uint64_t used);

// A request below this part of the limit is counted before anybody has looked whether it fits:
// where it does not, it bothers others for an instant and by little, and where it does, one walk
// over the slots is enough.
constexpr uint64_t kSmallPart = 64;

// Counts `bytes` as used if they fit. When they do not only because of what others have pending,
// asks again for a while: their calls may fail. The caller then asks the driver, and uncharges what
// the driver refused. `in_use`: what all use together with it.
inline bool take(const SliceAccount& slice, uint64_t bytes, uint64_t* in_use) {
  wire::AccountCell& cell = slice.cell();
  const uint64_t limit = slice.limit->memory_limit.load(std::memory_order_relaxed);
  if (__builtin_expect(bytes <= limit / kSmallPart, 1) || fits(slice, bytes, limit)) {
    const uint64_t used = cell.used.fetch_add(bytes) + bytes;
    *in_use = bytes_in_use(slice);
    if (__builtin_expect(*in_use <= limit, 1)) {
      const uint64_t peak = cell.peak.load(std::memory_order_relaxed);
      if (__builtin_expect(used > peak, 0)) note_peak(cell, used);
      return true;
    }
    cell.used.fetch_sub(bytes);
  }
  return take_patiently(slice, bytes, in_use);
}

// Counts bytes that the driver holds already and that nobody asked for beforehand.
void charge(const SliceAccount& slice, uint64_t bytes);
inline void uncharge(const SliceAccount& slice, uint64_t bytes) {
  slice.cell().used.fetch_sub(bytes);
}

// What the driver really takes for an allocation of `bytes`.
constexpr uint64_t allocation_bytes(uint64_t bytes) {
  constexpr uint64_t kMiB = 1U << 20U;
  if (bytes > UINT64_MAX / 2) return UINT64_MAX / 2;
  const uint64_t below_step = (bytes >= kMiB ? 2 * kMiB : 512) - 1;
  return (bytes + below_step) & ~below_step;
}

}  // namespace divvy::shim
