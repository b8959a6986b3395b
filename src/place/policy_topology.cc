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
#include <bit>
#include <compare>

#include "place/outcome.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

using model::DeviceLinks;
using Devices = DeviceLinks::Devices;

int count(Devices devices) { return std::popcount(devices); }

struct Cost {
  int distance = 0;
  int broken = 0;
  int left = 0;
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

class TopologyPolicy final : public Policy {
 public:
  [[nodiscard]] Choice choose(const NodeView& node, const Ask& ask) override {
    Choice choice = tightest(node, ask);
    const Devices use = devices_to_use(node, ask);
    const DeviceLinks& links = node.shape.links;
    if (ask.whole > 0) {
      Devices candidates = whole_devices(node, ask) & use;
      // Where only some of the free GPUs could give the part, one of these stays for it.
      const Devices part = choice.part_device < 0 ? 0 : part_devices(node, ask) & use;
      if ((part & ~candidates) == 0 && part != 0 && part != candidates) {
        candidates &= ~(1U << choice.part_device);
      }
      choice.whole =
          static_cast<std::uint16_t>(links.closest(candidates, ask.whole, node.state.whole));
    }
    if (choice.part_device < 0) return choice;

    const Devices room = part_devices(node, ask) & use & ~Devices{choice.whole};
    bool chosen = false;
    Cost lowest;
    DeviceLinks::for_each(room, [&](std::size_t device) {
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
    const DeviceLinks& links = node.shape.links;
    Devices taken = choice.whole;
    if (choice.part_device >= 0) taken |= 1U << choice.part_device;
    const int pairs = count(taken) * (count(taken) - 1) / 2;
    const double apart =
        pairs == 0 ? 0 : links.distance(taken) / (double{DeviceLinks::kFarthest} * pairs);
    const double unbroken = 1.0 / (1 + links.broken(taken, node.state.whole));
    const double full = 1 - outcome(node, ask, choice).idle / capacity;
    return static_cast<float>(60 * (1 - apart) + 30 * unbroken + 10 * full);
  }
};

}  // namespace

std::unique_ptr<Policy> make_topology() { return std::make_unique<TopologyPolicy>(); }

}  // namespace divvy::place
