// Finished work over time, in bins of equal length. An iteration that straddles bins counts in each
// by the part of its time that fell there. Owned and filled by one thread.
#pragma once

#include <cstdint>
#include <vector>

namespace divvy::gpuload {

class WorkBins {
 public:
  // `bin_ns` is above zero. What lies after `most` bins is left out.
  explicit WorkBins(uint64_t bin_ns, uint64_t most = 100'000) : bin_ns_(bin_ns), most_(most) {}

  // One iteration from `begin_ns` to `end_ns`, not before it, counted from the start of the bins.
  void add(uint64_t begin_ns, uint64_t end_ns);

  [[nodiscard]] const std::vector<double>& iterations() const { return iterations_; }

 private:
  void put(uint64_t bin, double part);

  uint64_t bin_ns_;
  uint64_t most_;
  std::vector<double> iterations_;
};

}  // namespace divvy::gpuload
