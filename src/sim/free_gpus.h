// Which GPUs of a cluster of equal nodes are free, and where a job fits: inside one node if it is
// not larger than a node, else on whole free nodes and the rest of it on one more. Plain values,
// used by the replay of jobs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/job_trace.h"

namespace divvy::sim {

struct NodePart {
  std::uint32_t node = 0;
  std::uint32_t gpus = 0;
  friend bool operator==(const NodePart&, const NodePart&) = default;
};
using GpuPlace = std::vector<NodePart>;

class FreeGpus {
 public:
  explicit FreeGpus(const ClusterShape& shape);

  [[nodiscard]] std::uint32_t free() const { return free_; }

  // The first place, by node number; takes nothing.
  [[nodiscard]] std::optional<GpuPlace> first_fit(std::uint32_t gpus) const;
  // The same, but a job smaller than a node goes where it leaves the fewest GPUs free.
  [[nodiscard]] std::optional<GpuPlace> best_fit(std::uint32_t gpus) const;
  [[nodiscard]] bool is_free(std::span<const NodePart> place) const;

  // The place is free, or it was taken before.
  void take(std::span<const NodePart> place);
  void give(std::span<const NodePart> place);

 private:
  [[nodiscard]] std::optional<GpuPlace> whole_nodes(std::uint32_t gpus) const;

  std::uint32_t per_node_;
  std::uint32_t free_;
  std::vector<std::uint32_t> nodes_;  // Free GPUs of each.
};

}  // namespace divvy::sim
