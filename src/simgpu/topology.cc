#include "simgpu/topology.h"

#include <algorithm>

namespace divvy::simgpu {

Distance distance(const GpuSpec& a, const GpuSpec& b, bool same_gpu) {
  if (same_gpu) return Distance::kSame;
  if (a.pcie_switch == b.pcie_switch) return Distance::kSwitch;
  return a.numa_node == b.numa_node ? Distance::kNode : Distance::kSystem;
}

bool link_active(const GpuSpec& spec, uint32_t link) {
  return link < spec.link_count && (spec.through_switch != 0 || spec.link_peer[link] >= 0);
}

int links_between(const Shared& shared, int a, int b) {
  if (a == b) return 0;
  const GpuSpec& from = shared.gpu[a].spec;
  const GpuSpec& to = shared.gpu[b].spec;
  if (from.through_switch != 0 || to.through_switch != 0) {
    // Switches of different generations do not join.
    const bool joined =
        from.through_switch != 0 && to.through_switch != 0 && from.link_version == to.link_version;
    return joined ? static_cast<int>(std::min(from.link_count, to.link_count)) : 0;
  }
  return static_cast<int>(
      std::count(from.link_peer, from.link_peer + from.link_count, static_cast<int8_t>(b)));
}

bool peers(const Shared& shared, int a, int b) {
  if (a == b) return false;
  if (links_between(shared, a, b) > 0) return true;
  // Over PCIe the driver wants two GPUs of the same generation.
  return shared.gpu[a].spec.architecture == shared.gpu[b].spec.architecture;
}

}  // namespace divvy::simgpu
