#include "model/device_links.h"

#include <algorithm>
#include <compare>

#include "base/check.h"

namespace divvy::model {
namespace {

using Devices = DeviceLinks::Devices;

// A pair that shares a level is spared its points: an island beats a switch and a NUMA node both.
constexpr std::array<int, 3> kFar{4, 2, 1};
static_assert(kFar[0] + kFar[1] + kFar[2] == DeviceLinks::kFarthest);

int count(Devices devices) { return std::popcount(devices); }

struct Cost {
  int distance = 0;
  int broken = 0;
  int left = 0;
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

// Numbers the groups of GPUs that are within `farthest` of each other; a GPU alone has one too.
std::vector<std::uint32_t> groups_within(const Topology& topology, LinkKind farthest) {
  std::vector<std::uint32_t> group(topology.size());
  std::uint32_t groups = 0;
  for (std::size_t i = 0; i < topology.size(); ++i) {
    std::uint32_t mine = groups;
    for (std::size_t j = 0; j < i && mine == groups; ++j) {
      if (topology.link(i, j).kind <= farthest) mine = group[j];
    }
    if (mine == groups) ++groups;
    group[i] = mine;
  }
  return group;
}

}  // namespace

std::vector<DeviceGroups> device_groups(const Node& node) {
  const Topology& topology = node.topology();
  const auto switches = groups_within(topology, LinkKind::kPxb);
  std::vector<std::uint32_t> islands(topology.size());
  const auto found = topology.islands();
  for (std::uint32_t i = 0; i < found.size(); ++i) {
    for (const std::size_t gpu : found[i]) islands[gpu] = i;
  }
  std::vector<DeviceGroups> result(node.gpus().size());
  for (std::size_t i = 0; i < std::min(result.size(), topology.size()); ++i) {
    const auto& numa = node.gpus()[i].numa_node;
    result[i] = {islands[i], switches[i], numa ? numa : topology.affinity(i).numa_node};
  }
  return result;
}

DeviceLinks::DeviceLinks(std::span<const DeviceGroups> devices) {
  DIVVY_CHECK(devices.size() <= kMaxDevices, "{} GPUs on one node", devices.size());
  constexpr std::array kGroups{&DeviceGroups::nvlink, &DeviceGroups::pcie, &DeviceGroups::numa};
  for (std::size_t level = 0; level < kLevels; ++level) {
    const auto group = kGroups[level];
    for (std::size_t i = 0; i < devices.size(); ++i) {
      together_[level][i] = Devices{1} << i;
      for (std::size_t j = 0; j < devices.size(); ++j) {
        if (devices[i].*group && devices[i].*group == devices[j].*group) {
          together_[level][i] |= Devices{1} << j;
        }
      }
      const int size = count(together_[level][i]);
      known_ = known_ || size > 1;
      if (size > 1 && size < static_cast<int>(devices.size())) matter_ = true;
    }
  }
}

int DeviceLinks::distance(std::size_t device, Devices others) const {
  others &= ~(Devices{1} << device);
  int sum = 0;
  for (std::size_t level = 0; level < kLevels; ++level) {
    sum += kFar[level] * count(others & ~together_[level][device]);
  }
  return sum;
}

int DeviceLinks::distance(Devices devices) const {
  int twice = 0;
  for_each(devices, [&](std::size_t device) { twice += distance(device, devices); });
  return twice / 2;
}

int DeviceLinks::broken(Devices taken, Devices free) const {
  int groups = 0;
  for (const auto& level : together_) {
    Devices left = taken;
    while (left != 0) {
      const Devices group = level[static_cast<std::size_t>(std::countr_zero(left))];
      left &= ~group;
      if (count(group) > 1 && (group & ~free) == 0 && (group & ~taken) != 0) ++groups;
    }
  }
  return groups;
}

int DeviceLinks::left_beside(Devices taken, Devices free) const {
  int left = 0;
  for (const auto& level : together_) {
    Devices touched = 0;
    for_each(taken, [&](std::size_t device) { touched |= level[device]; });
    left += count(touched & free & ~taken);
  }
  return left;
}

// From each candidate on, the closest one is added until there are enough; the best set wins.
Devices DeviceLinks::closest(Devices candidates, std::uint32_t wanted, Devices free) const {
  Devices best = 0;
  Cost lowest;
  for_each(candidates, [&](std::size_t first) {
    Devices set = Devices{1} << first;
    while (count(set) < static_cast<int>(wanted)) {
      std::size_t nearest = kMaxDevices;
      Cost nearest_cost;
      for_each(candidates & ~set, [&](std::size_t device) {
        const Devices with = set | Devices{1} << device;
        const Cost cost{distance(device, set), broken(with, free), 0};
        if (nearest != kMaxDevices && cost >= nearest_cost) return;
        nearest = device;
        nearest_cost = cost;
      });
      set |= Devices{1} << nearest;
    }
    const Cost cost{distance(set), broken(set, free), left_beside(set, free)};
    if (best != 0 && cost >= lowest) return;
    best = set;
    lowest = cost;
  });
  return best;
}

}  // namespace divvy::model
