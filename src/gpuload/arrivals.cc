#include "gpuload/arrivals.h"

#include <cmath>
#include <random>

#include "base/check.h"

namespace divvy::gpuload {

std::vector<uint64_t> poisson_arrivals(double per_second, uint64_t duration_ns, uint64_t seed) {
  DIVVY_CHECK(per_second > 0, "an arrival rate of {} per second", per_second);
  // The engine's output is fixed by the standard, that of std::exponential_distribution is not; so
  // the gaps are made here, from 53 random bits each.
  std::mt19937_64 engine(seed);
  std::vector<uint64_t> arrivals;
  double at_ns = 0;
  while (true) {
    const double uniform = static_cast<double>(engine() >> 11U) * 0x1.0p-53;
    at_ns += -std::log1p(-uniform) / per_second * 1e9;
    if (at_ns >= static_cast<double>(duration_ns)) return arrivals;
    arrivals.push_back(static_cast<uint64_t>(at_ns));
  }
}

}  // namespace divvy::gpuload
