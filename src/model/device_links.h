// How near the GPUs of one node are to each other, as sets: which GPUs to take so that those of one
// tenant are close together and connected sets stay whole for whoever needs them. A plain value;
// pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/node.h"

namespace divvy::model {

// The groups that a GPU is in, by numbers of the node's own; nothing: not known.
struct DeviceGroups {
  std::optional<std::uint32_t> nvlink;  // NVLink island
  std::optional<std::uint32_t> pcie;    // PCIe switch
  std::optional<std::uint32_t> numa;    // NUMA node
};
// In the order of node.gpus().
[[nodiscard]] std::vector<DeviceGroups> device_groups(const Node& node);

class DeviceLinks {
 public:
  using Devices = std::uint32_t;  // a bit for each GPU
  static constexpr std::size_t kMaxDevices = 32;

  // Of no GPU.
  DeviceLinks() = default;
  // At most kMaxDevices. What is not known counts as far apart.
  explicit DeviceLinks(std::span<const DeviceGroups> devices);

  // Whether any two GPUs are known to share something.
  [[nodiscard]] bool known() const { return known_; }
  // Whether it makes a difference which GPUs are taken.
  [[nodiscard]] bool matter() const { return matter_; }

  // NVLink is nearer than a PCIe switch, and that nearer than a NUMA node. Of one GPU to all of
  // these, and of all pairs of them; 0 where they share everything, kFarthest for each pair that
  // shares nothing.
  static constexpr int kFarthest = 7;
  [[nodiscard]] int distance(std::size_t device, Devices others) const;
  [[nodiscard]] int distance(Devices devices) const;
  // Groups that were wholly free and of which only a part is taken.
  [[nodiscard]] int broken(Devices taken, Devices free) const;
  // Free GPUs that share a group with what is taken, counted once for each level.
  [[nodiscard]] int left_beside(Devices taken, Devices free) const;

  // `wanted` of the candidates, which are that many at least and all among `free`: the closest
  // ones, of equal ones those that break the fewest groups, then those that leave the fewest free
  // GPUs beside them.
  [[nodiscard]] Devices closest(Devices candidates, std::uint32_t wanted, Devices free) const;

  template <typename Visit>
  static void for_each(Devices devices, const Visit& visit) {
    for (; devices != 0; devices &= devices - 1) {
      visit(static_cast<std::size_t>(std::countr_zero(devices)));
    }
  }

  friend bool operator==(const DeviceLinks&, const DeviceLinks&) = default;

 private:
  static constexpr std::size_t kLevels = 3;  // from near to far

  bool known_ = false;
  bool matter_ = false;
  std::array<std::array<Devices, kMaxDevices>, kLevels> together_{};
};

}  // namespace divvy::model
