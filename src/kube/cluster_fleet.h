// The GPUs of a cluster as the queue sees them, made of what node agents and Kubernetes say of each
// node. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "jobs/fleet.h"
#include "kube/cluster_objects.h"

namespace divvy::kube {

struct KnownGpuNode {
  GpuNodeFacts facts;
  // When the heartbeat was last seen to change; nothing: it was not. So that clocks that differ
  // close no node.
  std::optional<WallTime> changed = std::nullopt;
  bool is_new = true;  // the heartbeat has changed since anybody looked

  // When the agent was last heard of, as far as anybody knows.
  [[nodiscard]] WallTime heard() const;
};

// The labels of nodes that say where they stand.
struct TopologyLabels {
  std::string zone = "topology.kubernetes.io/zone";
  std::string rack = "topology.kubernetes.io/rack";
};

using GpuNodes = std::map<std::string, KnownGpuNode>;
using Nodes = std::map<std::string, NodeFacts>;
// Of GPUs, by node and UUID, of which claims and nodes say more than they have.
using Overbooked = std::set<std::pair<std::string, model::GpuUuid>>;

// A node gets no new pods while its agent was not heard of for `silence`, it is cordoned or not
// ready; where Kubernetes does not know it any more it is lost.
[[nodiscard]] jobs::Fleet fleet_of(const GpuNodes& gpu_nodes, const Nodes& nodes,
                                   const Overbooked& overbooked, const TopologyLabels& topology,
                                   WallTime now, Duration silence);

}  // namespace divvy::kube
