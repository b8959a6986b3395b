// The part of the placer that puts several members together: one after the other, each taken as
// soon as it is placed, so that the next one sees it; all of it is taken back at the end.
#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "place/placer.h"

namespace divvy::place {
namespace {

// At most so many members fit on the node. May be too many where GPUs have to be close, never too
// few.
std::uint64_t room_on(const NodeView& node, const Ask& ask) {
  if (!fits(node, ask)) return 0;
  std::uint64_t room = std::numeric_limits<std::uint32_t>::max();
  if (ask.cpu_milli > 0) {
    room = std::min(room, static_cast<std::uint64_t>(node.state.cpu_free / ask.cpu_milli));
  }
  if (ask.ram > 0) room = std::min(room, static_cast<std::uint64_t>(node.state.ram_free / ask.ram));
  if (ask.whole != 0) {
    const auto whole = static_cast<std::uint32_t>(std::popcount(whole_devices(node, ask)));
    room = std::min<std::uint64_t>(room, whole / ask.whole);
  } else if (ask.wants_part()) {
    std::uint64_t parts = 0;
    for (std::size_t i = 0; i < node.shape.devices; ++i) {
      const std::uint32_t size = std::max(part_size(ask, node.shape.memory[i]), 1U);
      parts += node.state.free[i] / size + (part_devices(node, ask) >> i & 1);
    }
    room = std::min(room, parts);
  }
  return room;
}

struct Domain {
  std::uint32_t number = 0;
  std::uint64_t room = 0;
  std::vector<NodeId> nodes;
};

// The racks, zones or nodes with room for anybody.
std::vector<Domain> domains(const Cluster& cluster, Closeness level, const Ask& ask,
                            const Eligible& eligible) {
  const std::size_t count = level == Closeness::kZone   ? cluster.zones()
                            : level == Closeness::kRack ? cluster.racks()
                                                        : cluster.size();
  std::vector<Domain> found(count);
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    const NodeId node(i);
    if (!eligible(node)) continue;
    const std::uint64_t room = room_on(view(cluster, node), ask);
    if (room == 0) continue;
    const std::uint32_t number = level == Closeness::kZone   ? cluster.zone(node)
                                 : level == Closeness::kRack ? cluster.rack(node)
                                                             : i;
    found[number].number = number;
    found[number].room += room;
    found[number].nodes.push_back(node);
  }
  std::erase_if(found, [](const Domain& domain) { return domain.room == 0; });
  return found;
}

// Members that fell on one node one by one: the same GPUs as one member with all of them would get,
// and of these each member the closest. The cluster is as it was before the first of them.
void draw_together(const Cluster& cluster, const Ask& ask, std::vector<Spot>& spots) {
  if (ask.whole == 0 || ask.wants_part() || ask.near_required) return;
  std::vector<std::size_t> by_node(spots.size());
  std::iota(by_node.begin(), by_node.end(), 0);
  std::ranges::sort(by_node, {}, [&](std::size_t i) { return std::pair(spots[i].node, i); });
  for (std::size_t from = 0; from < by_node.size();) {
    const NodeId node = spots[by_node[from]].node;
    std::size_t to = from;
    while (to < by_node.size() && spots[by_node[to]].node == node) ++to;
    const NodeView seen = view(cluster, node);
    const model::DeviceLinks& links = seen.shape.links;
    if (to - from > 1 && links.matter()) {
      const auto wanted = static_cast<std::uint32_t>(to - from) * ask.whole;
      auto left = links.closest(whole_devices(seen, ask), wanted, seen.state.whole);
      for (std::size_t i = from; i < to; ++i) {
        const auto own = links.closest(left, ask.whole, left);
        spots[by_node[i]].whole = static_cast<std::uint16_t>(own);
        left &= ~own;
      }
    }
    from = to;
  }
}

}  // namespace

std::vector<Spot> Placer::plan(const Request& request) {
  const AskId id = intern(cluster_.ask_of(request));
  Eligible eligible(cluster_, request);
  const bool near = request.members_near.closeness != Closeness::kAnywhere && request.members > 1;
  std::vector<Spot> spots;
  const Cluster::Mark mark = cluster_.mark();
  const std::uint32_t placed =
      near ? place_near(id, request, eligible, spots)
           : place_one_by_one(id, request, eligible, request.members, spots);
  cluster_.rollback(mark);
  if (placed < request.least()) spots.clear();
  if (spots.size() > 1 && request.devices.empty()) draw_together(cluster_, ask(id), spots);
  return spots;
}

std::uint32_t Placer::place_one_by_one(AskId id, const Request& request, Eligible& eligible,
                                       std::uint32_t count, std::vector<Spot>& spots) {
  std::uint32_t placed = 0;
  while (placed < count) {
    const auto spot = request.devices.empty()
                          ? choose_where(id, eligible.everywhere() ? nullptr : &eligible)
                          : choose_pinned(ask(id), eligible);
    if (!spot) break;
    cluster_.take(*spot);
    eligible.place(spot->node);
    spots.push_back(*spot);
    ++placed;
  }
  return placed;
}

// Scores of nodes do not depend on each other, so after each member only its node is scored again.
std::uint32_t Placer::place_among(AskId id, std::span<const NodeId> nodes, Eligible& eligible,
                                  std::uint32_t count, std::vector<Spot>& spots) {
  const Ask wanted = ask(id);
  struct Best {
    float score;
    NodeId node;
    Choice choice;
    bool operator<(const Best& other) const {
      return score != other.score ? score < other.score : node > other.node;
    }
  };
  std::priority_queue<Best> queue;
  const auto consider = [&](NodeId node) {
    const NodeView seen = view(cluster_, node);
    const bool full = seen.state.members_left == 0;
    if (full || !fits(seen, wanted) || !eligible(node)) return;
    const Offer offer = policy_->settle(seen, wanted);
    queue.push({offer.score, node, offer.choice});
  };
  for (const NodeId node : nodes) consider(node);
  std::uint32_t placed = 0;
  while (placed < count && !queue.empty()) {
    const Best best = queue.top();
    queue.pop();
    // Another member may have used up what the spread rule allows there.
    if (!eligible(best.node)) continue;
    const Spot spot = spot_of(view(cluster_, best.node), wanted, best.choice);
    cluster_.take(spot);
    eligible.place(best.node);
    spots.push_back(spot);
    ++placed;
    consider(best.node);
  }
  return placed;
}

// In the domain with the least room that has enough. Where none has: the one that takes the most if
// nearness is required, otherwise as few domains as possible.
std::uint32_t Placer::place_near(AskId id, const Request& request, Eligible& eligible,
                                 std::vector<Spot>& spots) {
  std::vector<Domain> found = domains(cluster_, request.members_near.closeness, ask(id), eligible);
  std::ranges::sort(found, {},
                    [](const Domain& domain) { return std::pair(domain.room, domain.number); });
  const auto enough =
      std::ranges::lower_bound(found, std::uint64_t{request.members}, {}, &Domain::room);
  for (auto domain = enough; domain != found.end(); ++domain) {
    const Cluster::Mark mark = cluster_.mark();
    Eligible trial = eligible;
    std::vector<Spot> tried;
    if (place_among(id, domain->nodes, trial, request.members, tried) == request.members) {
      cluster_.keep(mark);
      spots = std::move(tried);
      return request.members;
    }
    cluster_.rollback(mark);
  }
  std::uint32_t placed = 0;
  for (auto domain = found.rbegin(); domain != found.rend() && placed < request.members; ++domain) {
    placed += place_among(id, domain->nodes, eligible, request.members - placed, spots);
    if (request.members_near.required) break;
  }
  return placed;
}

}  // namespace divvy::place
