#include "gpuload/work_bins.h"

#include <algorithm>

namespace divvy::gpuload {

void WorkBins::put(uint64_t bin, double part) {
  if (bin >= most_) return;
  if (bin >= iterations_.size()) iterations_.resize(bin + 1, 0.0);
  iterations_[bin] += part;
}

void WorkBins::add(uint64_t begin_ns, uint64_t end_ns) {
  if (end_ns <= begin_ns) {
    put(end_ns / bin_ns_, 1);
    return;
  }
  const auto whole = static_cast<double>(end_ns - begin_ns);
  const uint64_t last = std::min<uint64_t>((end_ns - 1) / bin_ns_, most_);
  for (uint64_t bin = begin_ns / bin_ns_; bin <= last; ++bin) {
    const uint64_t from = std::max(begin_ns, bin * bin_ns_);
    const uint64_t until = std::min(end_ns, (bin + 1) * bin_ns_);
    put(bin, static_cast<double>(until - from) / whole);
  }
}

}  // namespace divvy::gpuload
