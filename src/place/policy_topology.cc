// topology: GPUs of one member close together, and islands kept whole for those who need them.
//
// Assumptions: traffic between the GPUs of a member goes fastest inside an NVLink island, then
//   under one PCIe switch, then inside a NUMA node. A group of these that is wholly free is worth
//   more than the same GPUs here and there. What is not known counts as far apart.
// Algorithm: from each free GPU on, the closest one is added until there are enough; the closest
//   set wins, of equal ones that which breaks the fewest free groups, then that which leaves the
//   fewest free GPUs beside it. The part goes near the whole GPUs, and else to a GPU of a group
//   that is broken already, where it leaves the least over.
// Factors: up to 60 points for closeness, 30 for free groups that stay whole, 10 for a node that is
//   full afterwards. Members without GPU go where the fewest GPUs are free.
#include <array>
#include <bit>
#include <compare>
#include <optional>
#include <vector>

#include "place/outcome.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

using Devices = unsigned;  // a bit for each

constexpr std::size_t kLevels = 3;  // NVLink, PCIe, NUMA: from near to far
// A pair that shares a level is spared its points: an island beats a switch and a NUMA node both.
constexpr std::array<int, kLevels> kFar{4, 2, 1};
constexpr int kFarthest = 7;
constexpr std::uint8_t kUnknown = 255;

int count(Devices devices) { return std::popcount(devices); }

// The GPUs of a node by groups.
class Links {
 public:
  explicit Links(const NodeShape& shape) {
    const std::array levels{&shape.nvlink, &shape.pcie, &shape.numa};
    for (std::size_t level = 0; level < kLevels; ++level) {
      for (std::size_t i = 0; i < shape.devices; ++i) {
        together_[level][i] = 1U << i;
        for (std::size_t j = 0; j < shape.devices; ++j) {
          const bool known = (*levels[level])[i] != kUnknown;
          if (known && (*levels[level])[i] == (*levels[level])[j]) together_[level][i] |= 1U << j;
        }
      }
    }
  }

  // Of one GPU to all of these, 0 where they share everything.
  [[nodiscard]] int distance(std::size_t device, Devices others) const {
    others &= ~(1U << device);
    int sum = 0;
    for (std::size_t level = 0; level < kLevels; ++level) {
      sum += kFar[level] * count(others & ~together_[level][device]);
    }
    return sum;
  }
  [[nodiscard]] int distance(Devices devices) const {
    int twice = 0;
    for_each(devices, [&](std::size_t device) { twice += distance(device, devices); });
    return twice / 2;
  }

  // Groups that were wholly free and of which only a part is taken.
  [[nodiscard]] int broken(Devices taken, Devices free) const {
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

  // Free GPUs that share a group with what is taken, counted once for each level.
  [[nodiscard]] int left_beside(Devices taken, Devices free) const {
    int left = 0;
    for (const auto& level : together_) {
      Devices touched = 0;
      for_each(taken, [&](std::size_t device) { touched |= level[device]; });
      left += count(touched & free & ~taken);
    }
    return left;
  }

  template <typename Visit>
  static void for_each(Devices devices, const Visit& visit) {
    for (; devices != 0; devices &= devices - 1) {
      visit(static_cast<std::size_t>(std::countr_zero(devices)));
    }
  }

 private:
  std::array<std::array<Devices, kMaxDevices>, kLevels> together_{};
};

struct Cost {
  int distance = 0;
  int broken = 0;
  int left = 0;
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

// The closest `wanted` of the candidates, which are wholly free.
Devices closest(const Links& links, Devices candidates, std::uint32_t wanted, Devices free) {
  Devices best = 0;
  Cost lowest;
  Links::for_each(candidates, [&](std::size_t first) {
    Devices set = 1U << first;
    while (count(set) < static_cast<int>(wanted)) {
      std::size_t nearest = kMaxDevices;
      Cost nearest_cost;
      Links::for_each(candidates & ~set, [&](std::size_t device) {
        const Devices with = set | 1U << device;
        const Cost cost{links.distance(device, set), links.broken(with, free), 0};
        if (nearest != kMaxDevices && cost >= nearest_cost) return;
        nearest = device;
        nearest_cost = cost;
      });
      set |= 1U << nearest;
    }
    const Cost cost{links.distance(set), links.broken(set, free), links.left_beside(set, free)};
    if (best != 0 && cost >= lowest) return;
    best = set;
    lowest = cost;
  });
  return best;
}

class TopologyPolicy final : public Policy {
 public:
  void prepare(const Cluster&, const Workload&) override { links_.clear(); }

  [[nodiscard]] Choice choose(const NodeView& node, const Ask& ask) override {
    Choice choice = tightest(node, ask);
    const Devices use = devices_to_use(node, ask);
    const Links& links = links_of(node);
    if (ask.whole > 0) {
      Devices candidates = whole_devices(node, ask) & use;
      // Where only some of the free GPUs could give the part, one of these stays for it.
      const Devices part = choice.part_device < 0 ? 0 : part_devices(node, ask) & use;
      if ((part & ~candidates) == 0 && part != 0 && part != candidates) {
        candidates &= ~(1U << choice.part_device);
      }
      choice.whole =
          static_cast<std::uint16_t>(closest(links, candidates, ask.whole, node.state.whole));
    }
    if (choice.part_device < 0) return choice;

    const Devices room = part_devices(node, ask) & use & ~Devices{choice.whole};
    bool chosen = false;
    Cost lowest;
    Links::for_each(room, [&](std::size_t device) {
      const Devices with = choice.whole | 1U << device;
      const Cost cost{links.distance(device, choice.whole), links.broken(with, node.state.whole),
                      node.state.free[device]};
      if (chosen && cost >= lowest) return;
      chosen = true;
      lowest = cost;
      choice.part_device = static_cast<std::int16_t>(device);
    });
    return choice;
  }

  [[nodiscard]] float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    const double capacity = double{Share::kWhole} * node.shape.devices;
    if (!ask.wants_gpu()) {
      return capacity == 0 ? 100 : static_cast<float>(100 * (1 - node.state.idle / capacity));
    }
    const Links& links = links_of(node);
    Devices taken = choice.whole;
    if (choice.part_device >= 0) taken |= 1U << choice.part_device;
    const int pairs = count(taken) * (count(taken) - 1) / 2;
    const double apart = pairs == 0 ? 0 : links.distance(taken) / (double{kFarthest} * pairs);
    const double unbroken = 1.0 / (1 + links.broken(taken, node.state.whole));
    const double full = 1 - outcome(node, ask, choice).idle / capacity;
    return static_cast<float>(60 * (1 - apart) + 30 * unbroken + 10 * full);
  }

 private:
  const Links& links_of(const NodeView& node) {
    if (node.state.shape >= links_.size()) links_.resize(node.state.shape + std::size_t{1});
    auto& links = links_[node.state.shape];
    if (!links) links.emplace(node.shape);
    return *links;
  }

  std::vector<std::optional<Links>> links_;  // by shape
};

}  // namespace

std::unique_ptr<Policy> make_topology() { return std::make_unique<TopologyPolicy>(); }

}  // namespace divvy::place
