#include "place/shortfall.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

namespace divvy::place {
namespace {

constexpr std::uint8_t kUnknownGroup = 255;

// The sets of GPUs from which a member may be put together.
std::vector<std::uint16_t> groups_for(const NodeShape& shape, const Ask& ask) {
  if (!ask.near_required) return {kAllDevices};
  const auto& group = ask.gpus_near == Closeness::kNvlink ? shape.nvlink
                      : ask.gpus_near == Closeness::kPcie ? shape.pcie
                                                          : shape.numa;
  std::map<std::uint8_t, std::uint16_t> found;
  for (std::size_t i = 0; i < shape.devices; ++i) {
    if (group[i] != kUnknownGroup) found[group[i]] |= static_cast<std::uint16_t>(1U << i);
  }
  std::vector<std::uint16_t> result;
  result.reserve(found.size());
  for (const auto& [number, devices] : found) result.push_back(devices);
  return result;
}

// What of one GPU is missing for a part or for all of it.
struct Need {
  std::uint32_t cost = 0;
  DeviceShortfall missing;
};

std::optional<Need> whole_need(const NodeTrial& node, const Ask& ask, std::size_t device) {
  const NodeShape& shape = node.shape();
  const NodeState& state = node.state();
  const bool possible =
      (state.usable >> device & 1) != 0 && (ask.models >> shape.model[device] & 1) != 0 &&
      shape.memory[device] >= ask.whole_memory && node.ceiling().share[device] == Share::kWhole &&
      node.ceiling().memory[device] == shape.memory[device];
  if (!possible) return std::nullopt;
  Need need;
  if ((state.whole >> device & 1) != 0) return need;
  need.missing = {static_cast<std::uint8_t>(device), true,
                  Share::kWhole - std::uint32_t{state.share_free[device]},
                  shape.memory[device] - state.memory_free[device]};
  need.cost = std::max<std::uint32_t>(1, Share::kWhole - std::uint32_t{state.free[device]});
  return need;
}

std::optional<Need> part_need_of(const NodeTrial& node, const Ask& ask, std::size_t device) {
  const NodeShape& shape = node.shape();
  const NodeState& state = node.state();
  const PartNeed wanted = part_need(ask, shape.memory[device]);
  const bool possible = (state.usable >> device & 1) != 0 &&
                        (ask.models >> shape.model[device] & 1) != 0 &&
                        wanted.share <= node.ceiling().share[device] &&
                        wanted.memory <= node.ceiling().memory[device];
  if (!possible) return std::nullopt;
  Need need;
  need.missing.device = static_cast<std::uint8_t>(device);
  if (wanted.share > state.share_free[device]) {
    need.missing.share = wanted.share - state.share_free[device];
  }
  if (wanted.memory > state.memory_free[device]) {
    need.missing.memory = wanted.memory - state.memory_free[device];
  }
  const auto memory_cost =
      static_cast<std::uint32_t>(static_cast<double>(need.missing.memory) /
                                 static_cast<double>(shape.memory[device]) * Share::kWhole);
  const bool missing = need.missing.share != 0 || need.missing.memory != 0;
  need.cost = missing ? std::max({1U, need.missing.share, memory_cost}) : 0;
  return need;
}

// The cheapest way to put the member's GPUs together from this group.
struct GpuNeeds {
  std::uint64_t cost = 0;
  std::vector<DeviceShortfall> missing;
};

std::optional<GpuNeeds> gpu_needs(const NodeTrial& node, const Ask& ask, std::uint16_t group) {
  std::vector<Need> wholes;
  for (std::uint8_t i = 0; ask.whole != 0 && i < node.shape().devices; ++i) {
    if ((group >> i & 1) == 0) continue;
    if (auto need = whole_need(node, ask, i)) {
      need->missing.device = i;
      wholes.push_back(*need);
    }
  }
  std::ranges::sort(wholes, {},
                    [](const Need& need) { return std::pair(need.cost, need.missing.device); });
  const auto pick = [&](int without) -> std::optional<GpuNeeds> {
    GpuNeeds picked;
    std::uint32_t count = 0;
    for (const Need& need : wholes) {
      if (count == ask.whole) break;
      if (need.missing.device == without) continue;
      ++count;
      picked.cost += need.cost;
      if (need.cost != 0) picked.missing.push_back(need.missing);
    }
    if (count < ask.whole) return std::nullopt;
    return picked;
  };
  if (!ask.wants_part()) return pick(-1);
  std::optional<GpuNeeds> best;
  for (std::uint8_t i = 0; i < node.shape().devices; ++i) {
    if ((group >> i & 1) == 0) continue;
    const auto part = part_need_of(node, ask, i);
    if (!part) continue;
    auto picked = pick(i);
    if (!picked) continue;
    picked->cost += part->cost;
    if (part->cost != 0) picked->missing.push_back(part->missing);
    if (!best || picked->cost < best->cost) best = std::move(picked);
  }
  return best;
}

std::uint64_t host_cost(std::int64_t missing, std::int64_t all) {
  if (missing <= 0) return 0;
  const double part =
      static_cast<double>(missing) / static_cast<double>(std::max<std::int64_t>(all, 1));
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(part * Share::kWhole));
}

void merge(Shortfall& into, const Shortfall& from) {
  for (const DeviceShortfall& device : from.devices) {
    const auto known = std::ranges::find(into.devices, device.device, &DeviceShortfall::device);
    if (known == into.devices.end()) {
      into.devices.push_back(device);
      continue;
    }
    known->whole = known->whole || device.whole;
    known->share += device.share;
    known->memory += device.memory;
  }
  into.cpu_milli += from.cpu_milli;
  into.ram += from.ram;
  into.member = into.member || from.member;
  into.cost += from.cost;
}

std::uint32_t domain_number(const Cluster& cluster, Closeness level, NodeId node) {
  return level == Closeness::kZone   ? cluster.zone(node)
         : level == Closeness::kRack ? cluster.rack(node)
                                     : node.value();
}

std::optional<Room> room_in(const Cluster& cluster, const Request& request, const Ask& ask,
                            const Domain& domain, std::uint32_t members,
                            std::span<const Spot> kept) {
  struct Offer {
    std::uint64_t cost;
    std::uint32_t node;
    std::size_t slot;
    bool operator>(const Offer& other) const {
      return cost != other.cost ? cost > other.cost : node > other.node;
    }
  };
  Eligible eligible(cluster, request);
  std::vector<NodeTrial> trials;
  std::vector<Shortfall> current;
  std::priority_queue<Offer, std::vector<Offer>, std::greater<>> offers;
  for (const NodeId node : domain.nodes) {
    NodeTrial trial(cluster, node, eligible.devices(node));
    for (const Spot& spot : kept) {
      if (spot.node == node) trial.keep(spot);
    }
    auto missing = shortfall(trial, ask);
    if (!missing) continue;
    offers.push({missing->cost, node.value(), trials.size()});
    trials.push_back(trial);
    current.push_back(*std::move(missing));
  }
  Room room;
  room.domain = domain.number;
  std::map<std::uint32_t, Shortfall> missing;
  while (room.spots.size() < members && !offers.empty()) {
    const Offer offer = offers.top();
    offers.pop();
    const NodeId node(offer.node);
    if (!eligible(node)) continue;  // As many as may be together there.
    NodeTrial& trial = trials[offer.slot];
    const Shortfall& need = current[offer.slot];
    free_up(trial, need);
    const auto spot = trial.spot(ask);
    if (!spot) continue;
    if (need.nothing()) {
      ++room.fit_now;
    } else {
      merge(missing.try_emplace(offer.node, Shortfall{.node = node, .devices = {}}).first->second,
            need);
      room.cost += need.cost;
    }
    trial.pin(*spot);
    eligible.place(node);
    room.spots.push_back(*spot);
    if (auto next = shortfall(trial, ask)) {
      current[offer.slot] = *std::move(next);
      offers.push({current[offer.slot].cost, offer.node, offer.slot});
    }
  }
  if (room.spots.size() < members) return std::nullopt;
  for (auto& [node, need] : missing) {
    std::ranges::sort(need.devices, {}, &DeviceShortfall::device);
    room.missing.push_back(std::move(need));
  }
  return room;
}

template <typename Trial>
std::uint32_t most_members(const Cluster& cluster, const Request& request, std::uint32_t most,
                           const Trial& trial_of) {
  const Ask ask = cluster.ask_of(request);
  std::uint32_t best = 0;
  for (const Domain& domain : domains_of(cluster, request)) {
    const Eligible eligible(cluster, request);
    std::unordered_map<std::uint32_t, std::uint32_t> together;
    std::uint64_t found = 0;
    for (const NodeId node : domain.nodes) {
      std::uint32_t count = trial_of(node, eligible.devices(node)).count(ask, most);
      if (request.spread) {
        std::uint32_t& there = together[domain_number(cluster, request.spread->domain, node)];
        count = std::min(count, request.spread->most - std::min(request.spread->most, there));
        there += count;
      }
      found += count;
      if (found >= most) return most;
    }
    best = std::max(best, static_cast<std::uint32_t>(found));
  }
  return best;
}

}  // namespace

std::optional<Shortfall> shortfall(const NodeTrial& node, const Ask& ask) {
  const NodeTrial::Ceiling& ceiling = node.ceiling();
  if (!node.state().open || ceiling.cpu_milli < ask.cpu_milli || ceiling.ram < ask.ram ||
      ceiling.members == 0) {
    return std::nullopt;
  }
  Shortfall result;
  result.node = node.node();
  result.cpu_milli = std::max<std::int64_t>(0, ask.cpu_milli - node.state().cpu_free);
  result.ram = std::max<std::int64_t>(0, ask.ram - node.state().ram_free);
  result.member = node.full();
  result.cost = host_cost(result.cpu_milli, node.shape().cpu_milli) +
                host_cost(result.ram, node.shape().ram) + (result.member ? 1 : 0);
  if (!ask.wants_gpu()) return result;
  std::optional<GpuNeeds> best;
  for (const std::uint16_t group : groups_for(node.shape(), ask)) {
    auto needs = gpu_needs(node, ask, group);
    if (needs && (!best || needs->cost < best->cost)) best = std::move(needs);
  }
  if (!best) return std::nullopt;
  result.cost += best->cost;
  result.devices = std::move(best->missing);
  return result;
}

void free_up(NodeTrial& node, const Shortfall& shortfall) {
  for (const DeviceShortfall& device : shortfall.devices) {
    if (device.whole) {
      node.free_whole(device.device);
    } else {
      node.free_share(device.device, device.share, device.memory);
    }
  }
  node.free_host(shortfall.cpu_milli, shortfall.ram);
  if (shortfall.member) node.free_member();
}

void free_up(Cluster& cluster, const Shortfall& shortfall) {
  Shortfall left = shortfall;
  const std::vector<HoldingId> holdings = cluster.on(shortfall.node);
  for (const HoldingId id : holdings) {
    const Holding before = cluster.holding(id);
    Spot after = before.spot;
    for (DeviceShortfall& device : left.devices) {
      const auto bit = static_cast<std::uint16_t>(1U << device.device);
      if (device.whole && (after.whole & bit) != 0) {
        after.whole &= static_cast<std::uint16_t>(~unsigned{bit});
      }
      if (static_cast<int>(after.part_device) != int{device.device}) continue;
      const auto share =
          device.whole ? after.part : std::min<std::uint32_t>(after.part, device.share);
      const auto memory =
          device.whole ? after.part_memory : std::min(after.part_memory, device.memory);
      after.part = static_cast<std::uint16_t>(after.part - share);
      after.part_memory -= memory;
      if (device.whole) {
        after.part_device = -1;
      } else {
        device.share -= share;
        device.memory -= memory;
      }
    }
    // A GPU that somebody has alone and of which a part is enough is freed as a whole.
    for (const DeviceShortfall& device : left.devices) {
      const auto bit = static_cast<std::uint16_t>(1U << device.device);
      if (!device.whole && (after.whole & bit) != 0) {
        after.whole &= static_cast<std::uint16_t>(~unsigned{bit});
      }
    }
    const std::int64_t cpu = std::min(after.cpu_milli, left.cpu_milli);
    const std::int64_t ram = std::min(after.ram, left.ram);
    after.cpu_milli -= cpu;
    left.cpu_milli -= cpu;
    after.ram -= ram;
    left.ram -= ram;
    const bool leaves = std::exchange(left.member, false);
    if (!leaves && after == before.spot) continue;
    // What it has of a broken GPU cannot be taken again, and is of no use to anybody.
    const std::uint16_t usable = cluster.state(shortfall.node).usable;
    after.whole &= usable;
    if (after.part_device >= 0 && (usable >> after.part_device & 1) == 0) {
      after.part_device = -1;
      after.part = 0;
      after.part_memory = 0;
    }
    cluster.release(id);
    if (!leaves) {
      (void)cluster.take(after, before.job, before.priority, before.preemptible);
    }
  }
}

std::vector<Domain> domains_of(const Cluster& cluster, const Request& request) {
  const Eligible eligible(cluster, request);
  const bool near =
      request.members_near.required && request.members_near.closeness != Closeness::kAnywhere;
  std::vector<Domain> domains;
  std::unordered_map<std::uint32_t, std::size_t> index;
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    const NodeId node(i);
    if (!eligible(node)) continue;
    const std::uint32_t number =
        near ? domain_number(cluster, request.members_near.closeness, node) : 0;
    const auto [place, is_new] = index.try_emplace(number, domains.size());
    if (is_new) domains.push_back({near ? std::optional(number) : std::nullopt, {}});
    domains[place->second].nodes.push_back(node);
  }
  return domains;
}

std::optional<Room> find_room(const Cluster& cluster, const Request& request, std::uint32_t members,
                              std::span<const Spot> kept) {
  const Ask ask = cluster.ask_of(request);
  std::optional<Room> best;
  for (const Domain& domain : domains_of(cluster, request)) {
    auto room = room_in(cluster, request, ask, domain, members, kept);
    if (room && (!best || room->cost < best->cost)) best = std::move(room);
  }
  return best;
}

std::uint32_t members_that_fit(const Cluster& cluster, const Request& request, std::uint32_t most) {
  return most_members(cluster, request, most, [&](NodeId node, std::uint16_t devices) {
    return NodeTrial(cluster, node, devices);
  });
}

std::uint32_t members_at_best(const Cluster& cluster, const Request& request, std::uint32_t most) {
  return most_members(cluster, request, most, [&](NodeId node, std::uint16_t devices) {
    return NodeTrial::at_its_best(cluster, node, devices);
  });
}

}  // namespace divvy::place
