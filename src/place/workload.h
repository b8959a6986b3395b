// What kind of requests come to this cluster: asks and how often each. Policies that look ahead
// (fgd, divvy) weigh what a decision leaves for them. A plain value; from a trace, or counted from
// what came so far.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "place/ask.h"

namespace divvy::place {

struct Typical {
  Ask ask;
  double part = 0;  // of all, sums up to 1
  std::uint64_t count = 0;
};

class Workload {
 public:
  Workload() = default;

  // Counts one. RAM is not counted: asks that differ in nothing else are the same here.
  void count(const Ask& ask, std::uint64_t times = 1);

  // Every ask that was counted, the most frequent first; of equally frequent ones the larger.
  [[nodiscard]] std::vector<Typical> all() const;
  // The shortest beginning of all() that covers this part of everything, its parts summing up to 1.
  [[nodiscard]] std::vector<Typical> typical(double covered) const;
  [[nodiscard]] bool empty() const { return counts_.empty(); }

 private:
  std::vector<Typical> counts_;  // in the order in which they were first seen
  std::unordered_map<Ask, std::size_t, AskHash> index_;
};

}  // namespace divvy::place
