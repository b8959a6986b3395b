// Products of two 64-bit numbers, for durations computed from bytes and rates.
#pragma once

#include <algorithm>
#include <cstdint>

namespace divvy::simgpu {

__extension__ using Wide = unsigned __int128;

// How long `bytes` take at a rate, in nanoseconds.
inline uint64_t transfer_ns(uint64_t bytes, uint64_t bytes_s) {
  return static_cast<uint64_t>(Wide{bytes} * 1'000'000'000U / std::max<uint64_t>(bytes_s, 1));
}

}  // namespace divvy::simgpu
