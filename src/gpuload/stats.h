// What many measurements come to. Pure functions on values; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace divvy::gpuload {

// Zero everywhere when there were no samples.
struct Summary {
  uint64_t count = 0;
  double mean = 0;
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

// Percentiles by nearest rank: always one of the samples, so that p99 of few samples is the slowest
// one and never an invented number. Takes its own copy because it sorts.
Summary summarize(std::vector<double> samples);

// The sample at `percent` (0 to 100) of sorted samples, by nearest rank. `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double percent);

}  // namespace divvy::gpuload
