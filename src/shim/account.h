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
uint64_t bytes_in_use(const SliceAccount& slice);

// Bytes of this process's cell, without what is pending.
uint64_t bytes_of_this_process(const SliceAccount& slice);

// Counts `bytes` as used if they fit. When they do not only because of what others have pending,
// asks again for a while: their calls may fail. The caller then asks the driver, and uncharges what
// the driver refused. `in_use`: what all use together with it.
bool take(const SliceAccount& slice, uint64_t bytes, uint64_t* in_use);

// Counts bytes that the driver holds already and that nobody asked for beforehand.
void charge(const SliceAccount& slice, uint64_t bytes);
inline void uncharge(const SliceAccount& slice, uint64_t bytes) {
  slice.cell().used.fetch_sub(bytes);
}

// What the driver really takes for an allocation of `bytes`.
constexpr uint64_t allocation_bytes(uint64_t bytes) {
  constexpr uint64_t kMiB = 1U << 20U;
  const uint64_t step = bytes >= kMiB ? 2 * kMiB : 512;
  if (bytes > UINT64_MAX - step) return UINT64_MAX / 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace divvy::shim
