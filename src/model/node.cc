#include "model/node.h"

#include <fmt/format.h>

#include <set>

namespace divvy::model {

CudaVersion CudaVersion::from_driver_number(std::uint32_t number) {
  return CudaVersion{number / 1000, number % 1000 / 10};
}

std::string to_string(CudaVersion version) {
  return fmt::format("{}.{}", version.major, version.minor);
}

Result<Node> Node::create(Parts parts) {
  if (parts.hostname.empty()) {
    return err(ErrorCode::kInvalidArgument, "a node has no host name; set one with hostnamectl");
  }
  if (parts.topology.size() != parts.gpus.size()) {
    return err(ErrorCode::kInvalidArgument, "node {} has {} GPUs, but its topology has {}",
               parts.hostname, parts.gpus.size(), parts.topology.size());
  }
  std::set<GpuIndex> indexes;
  std::set<GpuUuid> uuids;
  std::set<PciAddress> addresses;
  for (const Gpu& gpu : parts.gpus) {
    if (!indexes.insert(gpu.index).second) {
      return err(ErrorCode::kAlreadyExists, "node {} has two GPUs with the index {}",
                 parts.hostname, gpu.index);
    }
    if (gpu.uuid && !uuids.insert(*gpu.uuid).second) {
      return err(ErrorCode::kAlreadyExists, "node {} has two GPUs with the UUID {}", parts.hostname,
                 *gpu.uuid);
    }
    if (gpu.pci && !addresses.insert(*gpu.pci).second) {
      return err(ErrorCode::kAlreadyExists, "node {} has two GPUs at the PCI address {}",
                 parts.hostname, to_string(*gpu.pci));
    }
  }
  return Node(std::move(parts));
}

std::optional<std::size_t> Node::find(const GpuUuid& uuid) const {
  for (std::size_t i = 0; i < gpus().size(); ++i) {
    if (gpus()[i].uuid == uuid) return i;
  }
  return std::nullopt;
}

}  // namespace divvy::model
