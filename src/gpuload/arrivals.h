// When requests of a Poisson process arrive. Pure; the same seed gives the same times on every
// machine.
#pragma once

#include <cstdint>
#include <vector>

namespace divvy::gpuload {

// Nanoseconds from the start, rising, all below `duration_ns`, at `per_second` on average.
// `per_second` is above zero.
std::vector<uint64_t> poisson_arrivals(double per_second, uint64_t duration_ns, uint64_t seed);

}  // namespace divvy::gpuload
