#include "place/preempt.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "place/clearing.h"
#include "place/shortfall.h"

namespace divvy::place {
namespace {

// Domains for which a plan for a gang is tried out, the most promising first.
constexpr std::size_t kMostDomains = 4;

using Set = std::vector<std::size_t>;  // of candidates, ascending

struct Cost {
  std::size_t victims = 0;
  std::vector<std::int32_t> priorities;  // the highest first
  std::uint64_t share = 0;
  Set set;  // so that equal plans have an order
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

Cost cost_of(const std::vector<Victim>& candidates, Set set) {
  Cost cost;
  cost.victims = set.size();
  for (const std::size_t i : set) {
    cost.priorities.push_back(candidates[i].priority);
    cost.share += candidates[i].share;
  }
  std::ranges::sort(cost.priorities, std::ranges::greater{});
  cost.set = std::move(set);
  return cost;
}

bool touches(const Spot& a, const Spot& b) {
  const auto devices = [](const Spot& spot) {
    return spot.part_device < 0 ? unsigned{spot.whole} : spot.whole | 1U << spot.part_device;
  };
  return a.node == b.node && (devices(a) & devices(b)) != 0;
}

class Preemption {
 public:
  Preemption(Placer& placer, const Request& request, std::vector<Reservation> respected,
             PreemptionLimits limits)
      : placer_(placer),
        cluster_(placer.cluster()),
        request_(request),
        respected_(std::move(respected)),
        limits_(limits),
        ask_(cluster_.ask_of(request)) {}

  std::optional<PreemptionPlan> find() {
    const Cluster::Mark mark = cluster_.mark();
    for (const Reservation& reservation : respected_) hold(cluster_, reservation.spots);
    std::optional<PreemptionPlan> plan;
    if (auto spots = placer_.plan(request_); !spots.empty()) {
      plan = PreemptionPlan{{}, std::move(spots)};
    } else {
      collect();
      const std::optional<Cost> best = request_.least() == 1 ? for_one() : for_gang();
      if (best) plan = made_of(best->set);
    }
    cluster_.rollback(mark);
    return plan;
  }

 private:
  void collect();
  [[nodiscard]] std::vector<Leaver> leavers_on(NodeId node) const;
  [[nodiscard]] std::optional<Cost> for_one();
  [[nodiscard]] std::optional<Cost> for_gang();
  [[nodiscard]] std::optional<Cost> greedily_in(const Domain& domain);
  [[nodiscard]] std::optional<Cost> exactly(std::optional<Cost> best);
  [[nodiscard]] Set without_useless(Set set);

  // Where the request goes when these are gone; empty where it does not fit.
  [[nodiscard]] std::vector<Spot> spots_without(const Set& set) {
    const Cluster::Mark mark = cluster_.mark();
    release(set);
    std::vector<Spot> spots = placer_.plan(request_);
    cluster_.rollback(mark);
    return spots;
  }
  void release(const Set& set) {
    for (const std::size_t i : set) {
      for (const HoldingId holding : candidates_[i].holdings) cluster_.release(holding);
    }
  }
  [[nodiscard]] std::optional<PreemptionPlan> made_of(const Set& set);

  Placer& placer_;
  Cluster& cluster_;
  const Request& request_;
  const std::vector<Reservation> respected_;
  const PreemptionLimits limits_;
  const Ask ask_;
  std::vector<Victim> candidates_;                 // the cheapest first
  std::vector<std::vector<std::size_t>> on_node_;  // the candidates on each node
};

void Preemption::collect() {
  std::unordered_map<std::uint64_t, std::size_t> index;
  std::vector<bool> spared;
  for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
    for (const HoldingId id : cluster_.on(NodeId(i))) {
      const Holding& holding = cluster_.holding(id);
      std::size_t place = candidates_.size();
      if (holding.job != 0) place = index.try_emplace(holding.job, place).first->second;
      if (place == candidates_.size()) {
        candidates_.push_back({holding.job, holding.priority, 0, {}});
        spared.push_back(false);
      }
      Victim& victim = candidates_[place];
      victim.priority = std::max(victim.priority, holding.priority);
      victim.share += holding.spot.share();
      victim.holdings.push_back(id);
      const bool reserved = std::ranges::any_of(respected_, [&](const Reservation& reservation) {
        return std::ranges::any_of(reservation.spots,
                                   [&](const Spot& spot) { return touches(spot, holding.spot); });
      });
      if (!holding.preemptible || holding.priority >= request_.priority || reserved) {
        spared[place] = true;
      }
    }
  }
  std::vector<Victim> evictable;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!spared[i]) evictable.push_back(std::move(candidates_[i]));
  }
  candidates_ = std::move(evictable);
  std::ranges::sort(candidates_, {}, [](const Victim& victim) {
    return std::tuple(victim.priority, victim.share, victim.holdings.front());
  });
  on_node_.assign(cluster_.size(), {});
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    for (const HoldingId id : candidates_[i].holdings) {
      auto& here = on_node_[cluster_.holding(id).spot.node.value()];
      if (here.empty() || here.back() != i) here.push_back(i);
    }
  }
}

std::vector<Leaver> Preemption::leavers_on(NodeId node) const {
  std::vector<Leaver> leavers;
  for (const std::size_t i : on_node_[node.value()]) {
    Leaver leaver{i, {}};
    for (const HoldingId id : candidates_[i].holdings) {
      const Spot& spot = cluster_.holding(id).spot;
      if (spot.node == node) leaver.spots.push_back(spot);
    }
    leavers.push_back(std::move(leaver));
  }
  return leavers;
}

// One member goes to one node: the best victims of every node, and of those the best.
std::optional<Cost> Preemption::for_one() {
  struct Place {
    NodeTrial trial;
    std::vector<Leaver> leavers;
    std::size_t fewest;
  };
  const Eligible eligible(cluster_, request_);
  std::vector<Place> places;
  std::optional<Cost> best;
  const auto consider = [&](const Place& place, std::span<const std::size_t> gone) {
    Set set;
    for (const std::size_t i : gone) set.push_back(place.leavers[i].number);
    Cost cost = cost_of(candidates_, std::move(set));
    if (!best || cost < *best) best = std::move(cost);
  };
  for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
    const NodeId node(i);
    if (on_node_[i].empty() || !eligible(node)) continue;
    Place place{NodeTrial(cluster_, node, eligible.devices(node)), leavers_on(node), 0};
    place.fewest = fewest_leavers(place.trial, ask_, place.leavers);
    if (place.fewest > place.leavers.size()) continue;
    // A first answer, by which most of the sets need not be looked at.
    consider(place, some_clearing(place.trial, ask_, place.leavers));
    places.push_back(std::move(place));
  }
  std::uint64_t tries = limits_.tries;
  for (std::size_t size = 1; best && size <= best->victims; ++size) {
    for (const Place& place : places) {
      if (place.fewest > size || place.leavers.size() < size) continue;
      const bool all =
          visit_clearings(place.trial, ask_, place.leavers, size, tries,
                          [&](std::span<const std::size_t> gone) { consider(place, gone); });
      if (!all) return best;
    }
  }
  return best;
}

std::optional<Cost> Preemption::for_gang() {
  std::vector<Cost> found;
  for (const Domain& domain : domains_of(cluster_, request_)) {
    if (auto cost = greedily_in(domain)) found.push_back(*std::move(cost));
  }
  std::ranges::sort(found);
  std::optional<Cost> best;
  for (std::size_t i = 0; i < std::min(found.size(), kMostDomains); ++i) {
    Set set = without_useless(std::move(found[i].set));
    if (set.empty()) continue;
    Cost cost = cost_of(candidates_, std::move(set));
    if (!best || cost < *best) best = std::move(cost);
  }
  return exactly(std::move(best));
}

// Member by member, each where the cheapest victims are.
std::optional<Cost> Preemption::greedily_in(const Domain& domain) {
  struct Offer {
    NodeTrial trial;
    std::vector<Leaver> leavers;
    std::optional<Cost> cost;  // of one more member
  };
  Eligible eligible(cluster_, request_);
  std::vector<Offer> offers;
  std::unordered_map<std::uint32_t, std::size_t> offer_on;
  const auto update = [&](Offer& offer) {
    offer.cost.reset();
    if (offer.trial.fits(ask_)) {
      offer.cost = Cost{};
      return;
    }
    const Set gone = some_clearing(offer.trial, ask_, offer.leavers);
    if (gone.empty()) return;
    Set set;
    for (const std::size_t i : gone) set.push_back(offer.leavers[i].number);
    offer.cost = cost_of(candidates_, std::move(set));
  };
  for (const NodeId node : domain.nodes) {
    offer_on[node.value()] = offers.size();
    offers.push_back({NodeTrial(cluster_, node, eligible.devices(node)), leavers_on(node), {}});
    update(offers.back());
  }
  Set victims;
  for (std::uint32_t placed = 0; placed < request_.least(); ++placed) {
    Offer* best = nullptr;
    for (Offer& offer : offers) {
      const bool better = offer.cost && (best == nullptr || *offer.cost < *best->cost);
      if (better && eligible(offer.trial.node())) best = &offer;
    }
    if (best == nullptr) return std::nullopt;
    for (const std::size_t victim : best->cost->set) {
      victims.push_back(victim);
      std::vector<std::size_t> changed;
      for (const HoldingId id : candidates_[victim].holdings) {
        const Spot& spot = cluster_.holding(id).spot;
        const auto offer = offer_on.find(spot.node.value());
        if (offer == offer_on.end()) continue;
        offers[offer->second].trial.remove(spot);
        changed.push_back(offer->second);
      }
      for (const std::size_t i : changed) {
        std::erase_if(offers[i].leavers,
                      [&](const Leaver& leaver) { return leaver.number == victim; });
        if (&offers[i] != best) update(offers[i]);
      }
    }
    best->trial.add(*best->trial.spot(ask_));
    eligible.place(best->trial.node());
    update(*best);
  }
  std::ranges::sort(victims);
  return cost_of(candidates_, std::move(victims));
}

// Lets stay whoever can, the most expensive first. Empty if the placer finds no place at all.
Set Preemption::without_useless(Set set) {
  if (spots_without(set).empty()) return {};
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = set.size(); i-- > 0;) {
      Set fewer = set;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (spots_without(fewer).empty()) continue;
      set = std::move(fewer);
      changed = true;
    }
  }
  return set;
}

// Every set of victims from the smallest on, as long as there are not too many.
std::optional<Cost> Preemption::exactly(std::optional<Cost> best) {
  std::uint64_t left = limits_.plans;
  for (std::size_t size = 1; size <= candidates_.size(); ++size) {
    if (best && size > best->victims) break;
    std::uint64_t sets = 1;
    for (std::size_t i = 0; i < size && sets <= left; ++i) {
      sets = sets * (candidates_.size() - i) / (i + 1);
    }
    if (sets > left) break;
    left -= sets;
    Set set(size);
    std::iota(set.begin(), set.end(), 0);
    for (bool more = true; more;) {
      Cost cost = cost_of(candidates_, set);
      if ((!best || cost < *best) && !spots_without(set).empty()) best = std::move(cost);
      // The next set in order: the last number that can still grow does.
      std::size_t i = size;
      while (i > 0 && set[i - 1] == candidates_.size() - size + i - 1) --i;
      more = i != 0;
      if (!more) break;
      ++set[i - 1];
      for (std::size_t j = i; j < size; ++j) set[j] = set[j - 1] + 1;
    }
  }
  return best;
}

std::optional<PreemptionPlan> Preemption::made_of(const Set& set) {
  PreemptionPlan plan;
  plan.spots = spots_without(set);
  if (plan.spots.empty()) return std::nullopt;
  for (const std::size_t i : set) plan.victims.push_back(candidates_[i]);
  return plan;
}

}  // namespace

std::optional<PreemptionPlan> plan_preemption(Placer& placer, const Request& request,
                                              std::span<const Reservation> reservations,
                                              PreemptionLimits limits) {
  Outlook outlook;
  for (const Reservation& reservation : reservations) {
    if (reservation.priority < request.priority) continue;
    outlook.reservations.push_back(reservation);
    // Whenever it starts, the request may still be there.
    outlook.reservations.back().start = kNever;
  }
  auto plan = Preemption(placer, request, outlook.reservations, limits).find();
  if (!plan || outlook.reservations.empty()) return plan;
  // CPUs and RAM beside reserved GPUs may have been given away with the victims.
  Cluster& cluster = placer.cluster();
  const Cluster::Mark mark = cluster.mark();
  for (const Victim& victim : plan->victims) {
    for (const HoldingId holding : victim.holdings) cluster.release(holding);
  }
  const bool delays = delayed_by(cluster, outlook, plan->spots, kNever) != nullptr;
  cluster.rollback(mark);
  if (delays) return std::nullopt;
  return plan;
}

}  // namespace divvy::place
