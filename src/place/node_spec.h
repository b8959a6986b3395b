// What placement knows of a node: its size, its GPUs and how they are linked. Plain values, filled
// by whoever knows the fleet (a trace, the inventory of this machine, Kubernetes).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/node.h"

namespace divvy::place {

// More GPUs than this have no place in one node.
inline constexpr std::size_t kMaxDevices = 16;

struct DeviceSpec {
  std::string model;  // "NVIDIA H200"
  Bytes memory;
  // GPUs with the same number are close in that way; none knows nothing.
  std::optional<std::uint32_t> nvlink_island;
  std::optional<std::uint32_t> pcie_switch;
  std::optional<std::uint32_t> numa_node;
  std::string uuid;  // may be empty
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

struct NodeSpec {
  std::string name;
  std::uint64_t cpu_milli = 0;
  Bytes ram;
  std::vector<DeviceSpec> devices;
  std::map<std::string, std::string> labels;
  std::vector<std::string> taints;  // only requests that tolerate all of them come here
  std::string rack;
  std::string zone;
  std::uint32_t max_members = 1'000'000;
  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

// Refused: no name, too many GPUs, a GPU without model or memory, a name with control characters.
[[nodiscard]] Status check(const NodeSpec& spec);

// The GPUs of a real machine, with the islands, switches and NUMA nodes that its topology tells.
// GPUs whose memory is not known are left out, because nothing can be placed on them.
[[nodiscard]] NodeSpec spec_of(const model::Node& node, std::uint64_t cpu_milli, Bytes ram);

}  // namespace divvy::place
