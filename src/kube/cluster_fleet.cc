#include "kube/cluster_fleet.h"

#include <algorithm>

#include "kube/time_stamp.h"

namespace divvy::kube {
namespace {

// Of one node that placement knows how to deal with.
constexpr std::size_t kMostGpus = 16;

jobs::FleetGpu gpu_of(const agent::MachineGpu& gpu, bool overbooked) {
  jobs::FleetGpu one{.uuid = gpu.uuid};
  one.index = gpu.index;
  one.device.model = gpu.model;
  one.device.memory = gpu.memory;
  one.device.nvlink_island = gpu.nvlink_island;
  one.device.pcie_switch = gpu.pcie_switch;
  one.device.numa_node = gpu.numa_node;
  one.device.uuid = gpu.uuid.str();
  one.resting = gpu.resting;
  if (overbooked && one.resting.empty()) one.resting = "more is allocated on it than it has";
  one.lost = gpu.lost;
  return one;
}

std::string label(const NodeFacts& node, const std::string& name) {
  const auto found = node.labels.find(name);
  return found == node.labels.end() ? std::string() : found->second;
}

std::string why_closed(const KnownGpuNode& gpu_node, const NodeFacts* node, WallTime now,
                       Duration silence) {
  if (node == nullptr) return "Kubernetes has no such node";
  if (node->unschedulable) return "it is cordoned";
  if (!node->ready) return "it is not ready";
  if (now - gpu_node.heard() > silence) {
    return fmt::format("its node agent was last heard of at {}", time_stamp(gpu_node.heard()));
  }
  return {};
}

}  // namespace

WallTime KnownGpuNode::heard() const {
  const WallTime said = facts.heard.value_or(WallTime());
  return changed ? std::max(*changed, said) : said;
}

jobs::Fleet fleet_of(const GpuNodes& gpu_nodes, const Nodes& nodes, const Overbooked& overbooked,
                     const TopologyLabels& topology, WallTime now, Duration silence) {
  jobs::Fleet fleet;
  for (const auto& [name, known] : gpu_nodes) {
    const agent::MachineState& state = known.facts.state;
    const auto found = nodes.find(name);
    const NodeFacts* const node = found == nodes.end() ? nullptr : &found->second;
    jobs::FleetNode one;
    one.name = name;
    one.cpu_milli = state.cpu_milli;
    one.ram = state.ram;
    one.closed = why_closed(known, node, now, silence);
    one.lost = node == nullptr;
    if (node != nullptr) {
      one.zone = label(*node, topology.zone);
      one.rack = label(*node, topology.rack);
      one.labels = node->labels;
      for (const Taint& taint : node->taints) one.taints.push_back(to_string(taint));
    }
    for (const agent::MachineGpu& gpu : state.gpus) {
      if (gpu.model.empty() || gpu.memory == Bytes(0) || one.gpus.size() == kMostGpus) continue;
      one.gpus.push_back(gpu_of(gpu, overbooked.contains({name, gpu.uuid})));
    }
    fleet.nodes.push_back(std::move(one));
    fleet.smallest_slice = std::max(fleet.smallest_slice, state.smallest_slice);
  }
  return fleet;
}

}  // namespace divvy::kube
