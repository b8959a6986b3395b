#include "nvml/gpu_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace divvy::nvml {
namespace {

using model::Link;
using model::LinkKind;
using Ports = std::vector<nvml::NvlinkPort>;

Link pcie_link(nvml::Distance distance) {
  switch (distance) {
    case nvml::Distance::kSameBoard:
    case nvml::Distance::kOneSwitch:
      return {LinkKind::kPix, 0};
    case nvml::Distance::kSeveralSwitches:
      return {LinkKind::kPxb, 0};
    case nvml::Distance::kHostBridge:
      return {LinkKind::kPhb, 0};
    case nvml::Distance::kNumaNode:
      return {LinkKind::kNode, 0};
    case nvml::Distance::kSystem:
      return {LinkKind::kSys, 0};
  }
  return {};
}

std::uint32_t links_to_switches(const Ports& ports) {
  return static_cast<std::uint32_t>(
      std::ranges::count(ports, nvml::NvlinkPort::Remote::kSwitch, &nvml::NvlinkPort::remote));
}

std::uint32_t links_to(const Ports& ports, const std::optional<model::PciAddress>& address) {
  if (!address) return 0;
  return static_cast<std::uint32_t>(
      std::ranges::count(ports, address, &nvml::NvlinkPort::remote_pci));
}

// Direct links, or else the links that both have into the switches, which join all GPUs of a board.
std::uint32_t nvlinks_between(const Ports& from_a, const Ports& from_b, const model::Gpu& a,
                              const model::Gpu& b) {
  // One side may be unable to say what it is connected with; the other side's word is enough.
  const std::uint32_t direct = std::max(links_to(from_a, b.pci), links_to(from_b, a.pci));
  if (direct > 0) return direct;
  return std::min(links_to_switches(from_a), links_to_switches(from_b));
}

}  // namespace

model::Topology find_topology(nvml::Library& library,
                              const std::vector<std::optional<nvml::Device>>& devices,
                              const std::vector<model::Gpu>& gpus) {
  const std::size_t count = gpus.size();
  model::Topology topology(count);
  std::vector<Ports> ports(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!devices[i]) continue;
    ports[i] = library.active_nvlinks(*devices[i]).value_or(Ports{});
    const auto cpus = library.near_cpus(*devices[i]);
    const Status set = topology.set_affinity(
        i, {.cpus = cpus ? to_cpu_list(*cpus) : "", .numa_node = gpus[i].numa_node});
    DIVVY_CHECK(set.has_value(), "{}", set.error().message);
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      if (!devices[a] || !devices[b]) continue;
      Link link;
      if (const auto links = nvlinks_between(ports[a], ports[b], gpus[a], gpus[b]); links > 0) {
        link = model::nvlink(links);
      } else if (const auto distance = library.distance(*devices[a], *devices[b])) {
        link = pcie_link(*distance);
      }
      const Status set = topology.set_link(a, b, link);
      DIVVY_CHECK(set.has_value(), "{}", set.error().message);
    }
  }
  return topology;
}

std::string to_cpu_list(const std::vector<std::uint32_t>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::to_string(cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace divvy::nvml
