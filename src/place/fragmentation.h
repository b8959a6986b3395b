// How much of a node's free GPUs is of no use to the requests that come: the measure of the FGD
// paper (USENIX ATC 2023). For one typical ask it is everything that is free where the ask does not
// fit, and else what is free on GPUs that are too full for it; the fragmentation is the mean over
// the typical asks, in thousandths of a GPU.
//
// Answers are remembered: they depend on the CPUs only through which asks these are enough for, and
// on the GPUs not through their order, so that few states are really different. Used by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "place/cluster.h"
#include "place/fit.h"
#include "place/outcome.h"
#include "place/workload.h"

namespace divvy::place {

// The part of all requests that the typical ones cover, as published.
inline constexpr double kTypicalPart = 0.95;

class Fragmentation {
 public:
  Fragmentation() = default;
  // For nodes of one cluster: its shapes are told apart by their numbers.
  explicit Fragmentation(std::vector<Typical> typical);

  [[nodiscard]] double now(const NodeView& node);
  [[nodiscard]] double after(const NodeView& node, const Outcome& outcome);

 private:
  using Free = std::array<std::uint16_t, kMaxDevices>;
  struct Key {
    Free free{};
    std::uint32_t shape = 0;
    std::uint32_t cpu_step = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    [[nodiscard]] std::size_t operator()(const Key& key) const noexcept;
  };

  [[nodiscard]] double at(const NodeView& node, std::int64_t cpu_free, const Free& free);
  [[nodiscard]] double compute(const NodeShape& shape, std::int64_t cpu_free,
                               const Free& free) const;

  std::vector<Typical> typical_;
  std::vector<std::int64_t> cpu_steps_;  // what typical asks want, in ascending order
  std::unordered_map<Key, double, KeyHash> known_;
};

}  // namespace divvy::place
