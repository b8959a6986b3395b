#include "place/node_spec.h"

#include <algorithm>

#include "base/text.h"
#include "model/device_links.h"

namespace divvy::place {
namespace {

bool printable(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7f; });
}

}  // namespace

Status check(const NodeSpec& spec) {
  if (spec.name.empty() || !printable(spec.name)) {
    return err(ErrorCode::kInvalidArgument, "a node needs a printable name");
  }
  const std::string name = escape_for_terminal(spec.name);
  if (spec.devices.size() > kMaxDevices) {
    return err(ErrorCode::kOutOfRange, "node {} has {} GPUs; a node has at most {}", name,
               spec.devices.size(), kMaxDevices);
  }
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 4);
  if (spec.cpu_milli > kMost || spec.ram.count() > kMost) {
    return err(ErrorCode::kOutOfRange, "node {} is larger than any machine", name);
  }
  for (std::size_t i = 0; i < spec.devices.size(); ++i) {
    const DeviceSpec& device = spec.devices[i];
    if (device.model.empty() || !printable(device.model)) {
      return err(ErrorCode::kInvalidArgument, "GPU {} of node {} has no model name", i, name);
    }
    if (device.memory == Bytes(0) || device.memory.count() > kMost) {
      return err(ErrorCode::kInvalidArgument, "GPU {} of node {} has no believable memory size", i,
                 name);
    }
  }
  return {};
}

NodeSpec spec_of(const model::Node& node, std::uint64_t cpu_milli, Bytes ram) {
  NodeSpec spec;
  spec.name = node.hostname();
  spec.cpu_milli = cpu_milli;
  spec.ram = ram;
  const auto groups = model::device_groups(node);
  for (std::size_t i = 0; i < node.gpus().size() && spec.devices.size() < kMaxDevices; ++i) {
    const model::Gpu& gpu = node.gpus()[i];
    if (!gpu.memory_total || *gpu.memory_total == Bytes(0)) continue;
    DeviceSpec device;
    device.model = gpu.name.value_or("unknown");
    device.memory = *gpu.memory_total;
    device.nvlink_island = groups[i].nvlink;
    device.pcie_switch = groups[i].pcie;
    device.numa_node = groups[i].numa;
    if (gpu.uuid) device.uuid = gpu.uuid->str();
    spec.devices.push_back(std::move(device));
  }
  return spec;
}

}  // namespace divvy::place
