#include "sim/free_gpus.h"

#include <algorithm>

#include "base/check.h"

namespace divvy::sim {

FreeGpus::FreeGpus(const ClusterShape& shape)
    : per_node_(shape.gpus_per_node),
      free_(shape.gpus()),
      nodes_(shape.nodes, shape.gpus_per_node) {}

std::optional<GpuPlace> FreeGpus::whole_nodes(std::uint32_t gpus) const {
  GpuPlace place;
  std::uint32_t left = gpus;
  for (std::uint32_t node = 0; node < nodes_.size() && left >= per_node_; ++node) {
    if (nodes_[node] < per_node_) continue;
    place.push_back({node, per_node_});
    left -= per_node_;
  }
  if (left >= per_node_) return std::nullopt;
  if (left == 0) return place;
  const auto used = [&](std::uint32_t node) {
    return std::any_of(place.begin(), place.end(), [&](NodePart p) { return p.node == node; });
  };
  for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node] < left || used(node)) continue;
    place.push_back({node, left});
    return place;
  }
  return std::nullopt;
}

std::optional<GpuPlace> FreeGpus::first_fit(std::uint32_t gpus) const {
  if (gpus > free_) return std::nullopt;
  if (gpus > per_node_) return whole_nodes(gpus);
  for (std::uint32_t node = 0; node < nodes_.size(); ++node)
    if (nodes_[node] >= gpus) return GpuPlace{{node, gpus}};
  return std::nullopt;
}

std::optional<GpuPlace> FreeGpus::best_fit(std::uint32_t gpus) const {
  if (gpus > free_) return std::nullopt;
  if (gpus > per_node_) return whole_nodes(gpus);
  std::optional<std::uint32_t> best;
  for (std::uint32_t node = 0; node < nodes_.size(); ++node)
    if (nodes_[node] >= gpus && (!best || nodes_[node] < nodes_[*best])) best = node;
  if (!best) return std::nullopt;
  return GpuPlace{{*best, gpus}};
}

bool FreeGpus::is_free(std::span<const NodePart> place) const {
  return std::all_of(place.begin(), place.end(),
                     [&](NodePart part) { return nodes_[part.node] >= part.gpus; });
}

void FreeGpus::take(std::span<const NodePart> place) {
  for (const NodePart part : place) {
    DIVVY_CHECK(nodes_[part.node] >= part.gpus, "node {} has {} free GPUs, {} were taken",
                part.node, nodes_[part.node], part.gpus);
    nodes_[part.node] -= part.gpus;
    free_ -= part.gpus;
  }
}

void FreeGpus::give(std::span<const NodePart> place) {
  for (const NodePart part : place) {
    nodes_[part.node] += part.gpus;
    free_ += part.gpus;
    DIVVY_CHECK(nodes_[part.node] <= per_node_, "node {} has {} of {} GPUs free", part.node,
                nodes_[part.node], per_node_);
  }
}

}  // namespace divvy::sim
