#include "place/node_trial.h"

#include <algorithm>
#include <bit>

namespace divvy::place {

NodeTrial::NodeTrial(const Cluster& cluster, NodeId node, std::uint16_t devices)
    : state_(cluster.state(node)), shape_(&cluster.shape(node)), node_(node), devices_(devices) {
  ceiling_ = {shape_->cpu_milli, shape_->ram, {}, shape_->memory, cluster.spec(node).max_members};
  ceiling_.share.fill(Share::kWhole);
  if ((state_.usable & ~unsigned{devices}) == 0) return;
  state_.usable &= devices;
  for (std::size_t i = 0; i < shape_->devices; ++i) refresh(i);
}

NodeTrial NodeTrial::at_its_best(const Cluster& cluster, NodeId node, std::uint16_t devices) {
  NodeTrial trial(cluster, node, devices);
  NodeState& state = trial.state_;
  const NodeShape& shape = *trial.shape_;
  state.open = true;
  state.cpu_free = shape.cpu_milli;
  state.ram_free = shape.ram;
  state.members_left = cluster.spec(node).max_members;
  state.kinds = 0;
  state.usable = static_cast<std::uint16_t>(((1U << shape.devices) - 1) & devices);
  for (std::size_t i = 0; i < shape.devices; ++i) trial.free_whole(i);
  return trial;
}

void NodeTrial::apply(const Spot& spot, int sign) {
  state_.cpu_free -= sign * spot.cpu_milli;
  state_.ram_free -= sign * spot.ram;
  state_.members_left -= static_cast<std::uint32_t>(sign);
  for (unsigned left = spot.whole; left != 0; left &= left - 1) {
    const auto device = static_cast<std::size_t>(std::countr_zero(left));
    state_.share_free[device] = sign > 0 ? 0 : Share::kWhole;
    state_.memory_free[device] = sign > 0 ? 0 : shape_->memory[device];
    refresh(device);
  }
  if (spot.part_device < 0) return;
  const std::size_t device = static_cast<std::uint8_t>(spot.part_device);
  state_.share_free[device] =
      static_cast<std::uint16_t>(state_.share_free[device] - sign * spot.part);
  state_.memory_free[device] = sign > 0 ? state_.memory_free[device] - spot.part_memory
                                        : state_.memory_free[device] + spot.part_memory;
  refresh(device);
}

void NodeTrial::keep(const Spot& spot) {
  ceiling_.cpu_milli -= spot.cpu_milli;
  ceiling_.ram -= spot.ram;
  if (ceiling_.members != 0) --ceiling_.members;
  for (unsigned left = spot.whole; left != 0; left &= left - 1) {
    const auto device = static_cast<std::size_t>(std::countr_zero(left));
    ceiling_.share[device] = 0;
    ceiling_.memory[device] = 0;
  }
  if (spot.part_device < 0) return;
  const std::size_t device = static_cast<std::uint8_t>(spot.part_device);
  ceiling_.share[device] = static_cast<std::uint16_t>(
      ceiling_.share[device] - std::min<unsigned>(ceiling_.share[device], spot.part));
  ceiling_.memory[device] -= std::min(ceiling_.memory[device], spot.part_memory);
}

void NodeTrial::heal(std::size_t device) {
  state_.usable |= static_cast<std::uint16_t>(devices_ & 1U << device);
  refresh(device);
}

void NodeTrial::free_share(std::size_t device, std::uint32_t share, std::uint64_t memory) {
  state_.share_free[device] = static_cast<std::uint16_t>(
      std::min<std::uint32_t>(ceiling_.share[device], state_.share_free[device] + share));
  state_.memory_free[device] =
      std::min(ceiling_.memory[device], state_.memory_free[device] + memory);
  refresh(device);
}

void NodeTrial::free_whole(std::size_t device) {
  free_share(device, Share::kWhole, shape_->memory[device]);
}

void NodeTrial::free_host(std::int64_t cpu_milli, std::int64_t ram) {
  state_.cpu_free = std::min(ceiling_.cpu_milli, state_.cpu_free + cpu_milli);
  state_.ram_free = std::min(ceiling_.ram, state_.ram_free + ram);
}

void NodeTrial::free_member() {
  if (state_.members_left < ceiling_.members) ++state_.members_left;
}

Refusal NodeTrial::why_not(const Ask& ask) const {
  const Refusal refusal = place::why_not(view(), ask);
  return refusal == Refusal::kNone && full() ? Refusal::kMembers : refusal;
}

std::optional<Spot> NodeTrial::spot(const Ask& ask) const {
  if (!fits(ask)) return std::nullopt;
  return spot_of(view(), ask, tightest(view(), ask));
}

std::uint32_t NodeTrial::count(const Ask& ask, std::uint32_t most) const {
  NodeTrial trial = *this;
  std::uint32_t found = 0;
  while (found < most) {
    const auto next = trial.spot(ask);
    if (!next) break;
    trial.add(*next);
    ++found;
  }
  return found;
}

// The same rule as the cluster's, which node_trial_test.cc holds them to.
void NodeTrial::refresh(std::size_t device) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(shape_->memory[device])) - 50);
  const std::uint64_t all = shape_->memory[device] >> shift;
  std::uint64_t free = ((state_.memory_free[device] >> shift) * Share::kWhole + all / 2) / all;
  free = std::min<std::uint64_t>(free, state_.share_free[device]);
  const auto bit = static_cast<std::uint16_t>(1U << device);
  if ((state_.usable & bit) == 0) free = 0;
  state_.idle += static_cast<std::uint32_t>(free) - state_.free[device];
  state_.free[device] = static_cast<std::uint16_t>(free);
  state_.whole = static_cast<std::uint16_t>(free == Share::kWhole ? state_.whole | bit
                                                                  : state_.whole & ~unsigned{bit});
  state_.whole_count = static_cast<std::uint16_t>(std::popcount(state_.whole));
  state_.most_free = *std::ranges::max_element(state_.free);
}

}  // namespace divvy::place
