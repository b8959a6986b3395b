#include "gpuload/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace divvy::gpuload {

double percentile(const std::vector<double>& sorted, double percent) {
  DIVVY_CHECK(!sorted.empty(), "a percentile of nothing was asked for");
  const double rank = std::ceil(percent / 100.0 * static_cast<double>(sorted.size()));
  const auto index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  Summary summary;
  summary.count = samples.size();
  summary.mean =
      std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  summary.min = samples.front();
  summary.p50 = percentile(samples, 50);
  summary.p90 = percentile(samples, 90);
  summary.p99 = percentile(samples, 99);
  summary.max = samples.back();
  return summary;
}

}  // namespace divvy::gpuload
