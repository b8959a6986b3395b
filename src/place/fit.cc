#include "place/fit.h"

#include <algorithm>
#include <array>
#include <bit>

namespace divvy::place {
namespace {

constexpr std::uint8_t kUnknownGroup = 255;

std::uint16_t bit_of(std::size_t device) { return static_cast<std::uint16_t>(1U << device); }

int count(unsigned devices) { return std::popcount(devices); }

// GPUs that are there and of a wanted model, in whatever state.
std::uint16_t wanted_devices(const NodeShape& shape, const Ask& ask) {
  std::uint16_t wanted = 0;
  for (std::size_t i = 0; i < shape.devices; ++i) {
    if ((ask.models >> shape.model[i] & 1) != 0) wanted |= bit_of(i);
  }
  return wanted;
}

// Can the member be put together from these GPUs?
bool enough(std::uint16_t whole, std::uint16_t part, const Ask& ask) {
  const int wanted = static_cast<int>(ask.whole);
  if (count(whole) < wanted) return false;
  if (!ask.wants_part()) return true;
  if ((part & ~unsigned{whole}) != 0) return true;
  return (part & whole) != 0 && count(whole) > wanted;
}

const std::array<std::uint8_t, kMaxDevices>& groups(const NodeShape& shape, Closeness closeness) {
  return closeness == Closeness::kNvlink ? shape.nvlink
         : closeness == Closeness::kPcie ? shape.pcie
                                         : shape.numa;
}

// The group of close GPUs that has the member and the least to spare; nothing where none has.
std::uint16_t tightest_group(const NodeShape& shape, const Ask& ask, std::uint16_t whole,
                             std::uint16_t part) {
  const auto& group = groups(shape, ask.gpus_near);
  std::uint16_t best = 0;
  for (std::size_t first = 0; first < shape.devices; ++first) {
    if (group[first] == kUnknownGroup) continue;
    std::uint16_t together = 0;
    bool is_first = true;
    for (std::size_t i = 0; i < shape.devices; ++i) {
      if (group[i] != group[first]) continue;
      if (i < first) is_first = false;
      together |= bit_of(i);
    }
    const auto inside = [&](std::uint16_t devices) {
      return static_cast<std::uint16_t>(devices & together);
    };
    if (!is_first || !enough(inside(whole), inside(part), ask)) continue;
    if (best == 0 || count(inside(whole)) < count(unsigned{whole} & best)) best = together;
  }
  return best;
}

}  // namespace

std::string_view to_string(Refusal refusal) {
  constexpr std::array<std::string_view, 18> kNames{
      "fits",          "closed",     "not named", "excluded",     "labels",    "taint",
      "GPU model",     "CPUs",       "RAM",       "member limit", "unhealthy", "too few GPUs",
      "GPU too small", "whole GPUs", "GPU share", "GPU memory",   "nearness",  "spread"};
  return kNames[static_cast<std::size_t>(refusal)];
}

PartNeed part_need(const Ask& ask, std::uint64_t device_memory) {
  if (ask.part_memory == 0) {
    return {ask.part, portion(Bytes(device_memory), Share(ask.part)).count()};
  }
  if (ask.part != 0) return {ask.part, ask.part_memory};
  // By memory alone: as much of the compute as of the memory, rounded up. More than everything fits
  // nowhere.
  if (ask.part_memory > device_memory) return {Share::kWhole + 1, ask.part_memory};
  return {share_for(Bytes(ask.part_memory), Bytes(device_memory)).thousandths(), ask.part_memory};
}

std::uint32_t part_size(const Ask& ask, std::uint64_t device_memory) {
  if (ask.part_memory == 0) return ask.part;
  Ask by_memory = ask;
  by_memory.part = 0;
  return std::max(ask.part, part_need(by_memory, device_memory).share);
}

std::uint16_t part_devices(const NodeView& node, const Ask& ask) {
  unsigned devices = 0;
  PartNeed need;
  if (node.shape.uniform) {
    if ((ask.models & node.shape.models) == 0) return 0;
    need = part_need(ask, node.shape.memory[0]);
    for (std::size_t i = 0; i < node.shape.devices; ++i) {
      const auto share = static_cast<unsigned>(node.state.share_free[i] >= need.share);
      const auto memory = static_cast<unsigned>(node.state.memory_free[i] >= need.memory);
      devices |= (share & memory) << i;
    }
    return static_cast<std::uint16_t>(devices & node.state.usable);
  }
  for (std::size_t i = 0; i < node.shape.devices; ++i) {
    if (i == 0 || node.shape.memory[i] != node.shape.memory[i - 1]) {
      need = part_need(ask, node.shape.memory[i]);
    }
    const bool fits = node.state.share_free[i] >= need.share &&
                      node.state.memory_free[i] >= need.memory &&
                      (ask.models >> node.shape.model[i] & 1) != 0;
    if (fits) devices |= bit_of(i);
  }
  return static_cast<std::uint16_t>(devices & node.state.usable);
}

std::uint16_t whole_devices(const NodeView& node, const Ask& ask) {
  if (node.shape.uniform) {
    const bool fit =
        (ask.models & node.shape.models) != 0 && node.shape.memory[0] >= ask.whole_memory;
    return fit ? node.state.whole : 0;
  }
  std::uint16_t devices = 0;
  for (unsigned left = node.state.whole; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    if ((ask.models >> node.shape.model[i] & 1) != 0 && node.shape.memory[i] >= ask.whole_memory) {
      devices |= bit_of(i);
    }
  }
  return devices;
}

std::uint16_t devices_to_use(const NodeView& node, const Ask& ask) {
  const std::uint16_t whole = ask.whole != 0 || ask.wants_part() ? whole_devices(node, ask) : 0;
  const std::uint16_t part = ask.wants_part() ? part_devices(node, ask) : 0;
  if (!enough(whole, part, ask)) return 0;
  const auto all = static_cast<std::uint16_t>((1U << node.shape.devices) - 1);
  if (ask.gpus_near == Closeness::kAnywhere) return all;
  const std::uint16_t close = tightest_group(node.shape, ask, whole, part);
  return close != 0 || ask.near_required ? close : all;
}

bool fits(const NodeView& node, const Ask& ask) {
  const NodeState& state = node.state;
  if (!state.open || state.cpu_free < ask.cpu_milli || state.ram_free < ask.ram) return false;
  if (!ask.wants_gpu()) return true;
  return devices_to_use(node, ask) != 0;
}

Refusal why_not(const NodeView& node, const Ask& ask) {
  const NodeState& state = node.state;
  if (!state.open) return Refusal::kClosed;
  if (ask.wants_gpu()) {
    const std::uint16_t wanted = wanted_devices(node.shape, ask);
    const int gpus = static_cast<int>(ask.whole) + (ask.wants_part() ? 1 : 0);
    if (wanted == 0) return node.shape.devices == 0 ? Refusal::kTooFewGpus : Refusal::kModel;
    if (count(wanted) < gpus) return Refusal::kTooFewGpus;
    int large = 0;
    for (std::size_t i = 0; i < node.shape.devices; ++i) {
      const bool part_fits =
          ask.wants_part() && part_need(ask, node.shape.memory[i]).memory <= node.shape.memory[i];
      const bool whole_fits = ask.whole != 0 && node.shape.memory[i] >= ask.whole_memory;
      if ((wanted >> i & 1) != 0 && (part_fits || whole_fits)) ++large;
    }
    if (large < gpus) return Refusal::kGpuTooSmall;
    if (count(unsigned{wanted} & state.usable) < gpus) return Refusal::kUnhealthy;
  }
  if (state.cpu_free < ask.cpu_milli) return Refusal::kCpu;
  if (state.ram_free < ask.ram) return Refusal::kRam;
  if (!ask.wants_gpu()) return Refusal::kNone;
  if (count(whole_devices(node, ask)) < static_cast<int>(ask.whole)) return Refusal::kWholeGpus;
  if (ask.wants_part() && part_devices(node, ask) == 0) {
    for (std::size_t i = 0; i < node.shape.devices; ++i) {
      const bool candidate = (wanted_devices(node.shape, ask) & state.usable) >> i & 1;
      const PartNeed need = part_need(ask, node.shape.memory[i]);
      if (candidate && state.share_free[i] >= need.share) return Refusal::kGpuMemory;
    }
    return Refusal::kShare;
  }
  if (devices_to_use(node, ask) != 0) return Refusal::kNone;
  Ask anywhere = ask;
  anywhere.near_required = false;
  return devices_to_use(node, anywhere) != 0 ? Refusal::kNearness : Refusal::kWholeGpus;
}

int least_breaking(const NodeView& node, std::uint16_t whole) {
  if (!node.shape.links.matter()) return std::countr_zero(whole);
  return std::countr_zero(node.shape.links.closest(whole, 1, node.state.whole));
}

float nearness(const NodeView& node, const Choice& choice) {
  const model::DeviceLinks& links = node.shape.links;
  if (!links.known()) return 0;
  unsigned taken = choice.whole;
  if (choice.part_device >= 0) taken |= 1U << choice.part_device;
  const auto part = [](int of, int all) {
    return static_cast<float>(of) / static_cast<float>(all);
  };
  float near = 0;
  if (const int pairs = count(taken) * (count(taken) - 1) / 2; pairs > 0) {
    near = 0.8F - 0.8F * part(links.distance(taken), model::DeviceLinks::kFarthest * pairs);
  }
  const int broken = links.broken(taken, node.state.whole);
  const int left = links.left_beside(taken, node.state.whole);
  return near - 0.15F * part(broken, 1 + broken) - 0.05F * part(left, 1 + left);
}

Choice tightest(const NodeView& node, const Ask& ask) {
  Choice choice;
  if (!ask.wants_gpu()) return choice;
  const std::uint16_t use = devices_to_use(node, ask);
  auto whole = static_cast<std::uint16_t>(whole_devices(node, ask) & use);
  if (ask.wants_part()) {
    const auto part = static_cast<std::uint16_t>(part_devices(node, ask) & use);
    // A GPU that is in use already, as long as there is one.
    unsigned left = part & ~unsigned{whole};
    if (left == 0) left = part;
    for (; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      const auto at = [&](int device) { return node.state.free[static_cast<std::size_t>(device)]; };
      if (choice.part_device < 0 || at(i) < at(choice.part_device)) {
        choice.part_device = static_cast<std::int16_t>(i);
      }
    }
    if (choice.part_device >= 0) {
      if ((part & ~unsigned{whole}) == 0 && ask.whole == 0) {
        choice.part_device = static_cast<std::int16_t>(least_breaking(node, part));
      }
      whole &= static_cast<std::uint16_t>(~(1U << choice.part_device));
    }
  }
  if (node.shape.links.matter() && ask.whole != 0) {
    choice.whole =
        static_cast<std::uint16_t>(node.shape.links.closest(whole, ask.whole, node.state.whole));
    return choice;
  }
  for (std::uint32_t taken = 0; taken < ask.whole; ++taken) {
    const auto lowest = static_cast<std::uint16_t>(whole & -whole);
    choice.whole |= lowest;
    whole &= static_cast<std::uint16_t>(~unsigned{lowest});
  }
  return choice;
}

Spot spot_of(const NodeView& node, const Ask& ask, const Choice& choice) {
  Spot spot;
  spot.node = node.id;
  spot.whole = choice.whole;
  spot.part_device = choice.part_device;
  if (choice.part_device >= 0) {
    const auto device = static_cast<std::size_t>(choice.part_device);
    const PartNeed need = part_need(ask, node.shape.memory[device]);
    spot.part = static_cast<std::uint16_t>(need.share);
    spot.part_memory = need.memory;
  }
  spot.cpu_milli = ask.cpu_milli;
  spot.ram = ask.ram;
  return spot;
}

}  // namespace divvy::place
