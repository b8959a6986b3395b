#include "place/placer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace divvy::place {
namespace {

// Rough policies: nodes whose free CPUs lie between the same two steps are alike. Every amount that
// a known ask takes is a step, so that what fits one node of a group fits them all.
constexpr std::int64_t kCpuStepMilli = 2'000;
// Asks that make up this much of the workload have tables of their own.
constexpr double kScoredPart = 0.95;
// A known ask that takes so little more is scored as the other one.
constexpr std::int64_t kSimilarCpuMilli = 1'000;
// How often a guess that would win is corrected before it is taken as it is.
constexpr int kCorrections = 3;

// Whatever fits `larger` fits `smaller` too, and they are of one kind.
bool stands_for(const Ask& smaller, const Ask& larger) {
  return smaller.cpu_milli <= larger.cpu_milli && smaller.whole == larger.whole &&
         smaller.part <= larger.part && smaller.wants_part() == larger.wants_part() &&
         (larger.models & ~smaller.models) == 0 && smaller.part_memory == 0 &&
         larger.part_memory == 0 && smaller.whole_memory <= larger.whole_memory &&
         smaller.gpus_near == larger.gpus_near && smaller.near_required == larger.near_required;
}

// They differ in nothing that a group tells: RAM is looked at on the node itself.
bool same_to_groups(const Ask& a, Ask b) {
  b.ram = a.ram;
  return a == b;
}

// How different they are: parts of a GPU weigh most.
std::int64_t distance(const Ask& smaller, const Ask& larger) {
  return 20 * std::int64_t{larger.part - smaller.part} + (larger.cpu_milli - smaller.cpu_milli) +
         (smaller.models == larger.models ? 0 : 500);
}

}  // namespace

Placer::Placer(Cluster& cluster, std::unique_ptr<Policy> policy)
    : cluster_(cluster), policy_(std::move(policy)) {
  prepare({});
}

Placer::~Placer() = default;

void Placer::prepare(Workload workload) {
  workload_ = std::move(workload);
  policy_->prepare(cluster_, workload_);
  regroup();
}

void Placer::regroup() {
  std::vector<std::int64_t> steps;
  scored_.clear();
  const std::vector<Typical> known = workload_.all();
  if (policy_->rough()) {
    std::int64_t most = 0;
    for (const NodeShape& shape : cluster_.shapes()) most = std::max(most, shape.cpu_milli);
    for (std::int64_t step = 0; step <= most; step += kCpuStepMilli) steps.push_back(step);
    for (const Typical& typical : known) steps.push_back(typical.ask.cpu_milli);
    for (const Interned& interned : asks_) steps.push_back(interned.ask.cpu_milli);
    std::ranges::sort(steps);
    steps.erase(std::ranges::unique(steps).begin(), steps.end());
  }
  groups_ = std::make_unique<NodeGroups>(cluster_, std::move(steps));
  for (Interned& interned : asks_) interned.table.reset();
  if (policy_->rough()) {
    std::vector<Typical> often = workload_.typical(kScoredPart);
    std::vector<std::size_t> order(often.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {},
                      [&often](std::size_t i) { return std::pair(often[i].ask.cpu_milli, i); });
    for (const std::size_t i : order) {
      const Typical& typical = often[i];
      const bool similar = std::ranges::any_of(scored_, [&](AskId id) {
        const Ask& other = ask(id);
        return stands_for(other, typical.ask) && other.part == typical.ask.part &&
               other.models == typical.ask.models &&
               typical.ask.cpu_milli - other.cpu_milli < kSimilarCpuMilli;
      });
      if (similar) continue;
      const AskId id = intern(typical.ask);
      if (std::ranges::find(scored_, id) == scored_.end()) scored_.push_back(id);
    }
  }
  for (Interned& interned : asks_) find_scores(interned);
}

AskId Placer::scored_as(const Ask& wanted) const {
  const AskId own = by_ask_.at(wanted);
  if (!policy_->rough() || std::ranges::find(scored_, own) != scored_.end()) return own;
  std::optional<AskId> best;
  for (const AskId id : scored_) {
    if (!stands_for(ask(id), wanted)) continue;
    if (!best || distance(ask(id), wanted) < distance(ask(*best), wanted)) best = id;
  }
  return best.value_or(own);
}

AskId Placer::intern(const Ask& wanted) {
  const AskId next(static_cast<std::uint32_t>(asks_.size()));
  const auto [found, is_new] = by_ask_.try_emplace(wanted, next);
  if (is_new) {
    asks_.push_back({wanted, next, true, nullptr});
    asks_.back().ask.number = next.value();
    find_scores(asks_.back());
  }
  return found->second;
}

void Placer::find_scores(Interned& interned) {
  interned.scored_as = scored_as(interned.ask);
  interned.own_scores = same_to_groups(interned.ask, ask(interned.scored_as));
}

ScoreTable& Placer::table(AskId id) {
  Interned& interned = asks_[id.value()];
  if (!interned.table) {
    interned.table = std::make_unique<ScoreTable>(cluster_, *groups_, *policy_, interned.ask);
  }
  return *interned.table;
}

std::size_t Placer::table_bytes() const {
  std::size_t bytes = 0;
  for (const Interned& interned : asks_) bytes += interned.table ? interned.table->bytes() : 0;
  return bytes;
}

// --- One member ---

std::optional<Spot> Placer::choose(AskId id) { return choose_where(id, nullptr); }

std::optional<NodeId> Placer::node_of(GroupId group, const Ask& ask,
                                      const Eligible* eligible) const {
  for (std::uint32_t i = groups_->first(group); i != NodeGroups::kEnd; i = groups_->next(i)) {
    const NodeId node(i);
    if (cluster_.state(node).members_left == 0) continue;
    if (fits(view(cluster_, node), ask) && (eligible == nullptr || (*eligible)(node))) return node;
  }
  return std::nullopt;
}

std::optional<Spot> Placer::choose_where(AskId id, const Eligible* eligible) {
  groups_->catch_up();
  const Interned& interned = asks_[id.value()];
  const Ask& ask = interned.ask;
  if (policy_->compares()) return choose_comparing(ask, eligible);
  const Ask& scored = asks_[interned.scored_as.value()].ask;
  const bool own = interned.own_scores;
  ScoreTable& scores = table(interned.scored_as);
  scores.catch_up();
  std::vector<std::pair<GroupId, float>> passed_over;
  std::optional<Spot> spot;
  int corrections = policy_->rough() ? kCorrections : 0;
  for (;;) {
    const auto group =
        own ? scores.best()
            : scores.best_where([&](GroupId candidate) { return scores.may_fit(candidate, ask); });
    if (!group) break;
    const auto node = node_of(*group, ask, eligible);
    if (!node) {
      passed_over.emplace_back(*group, scores.score(*group));
      scores.set(*group, ScoreTable::kNoFit);
      continue;
    }
    if (corrections-- > 0) {
      const NodeState& state = groups_->state(*group);
      const NodeView seen{state, cluster_.shapes()[state.shape], NodeId(*group),
                          groups_->note(*group)};
      const float settled = policy_->settle(seen, scored).score;
      if (settled != scores.score(*group)) {
        scores.set(*group, settled);
        continue;
      }
    }
    spot = spot_in(*group, *node, ask);
    break;
  }
  for (const auto& [group, score] : passed_over) scores.set(group, score);
  return spot;
}

// What was worked out for the group holds for its nodes: a node's own number of CPUs would be one
// more state to work out, only to choose between GPUs.
Spot Placer::spot_in(GroupId group, NodeId node, const Ask& ask) {
  const NodeView chosen = view(cluster_, node);
  if (groups_->each_alone()) return spot_of(chosen, ask, policy_->settle(chosen, ask).choice);
  NodeState as_group = chosen.state;
  as_group.cpu_free = groups_->state(group).cpu_free;
  const NodeView seen{as_group, chosen.shape, node, groups_->note(group)};
  return spot_of(chosen, ask, policy_->choose(seen, ask));
}

std::optional<Spot> Placer::choose_comparing(const Ask& ask, const Eligible* eligible) {
  std::vector<Candidate> candidates;
  std::vector<float> near;
  for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
    const NodeId node(i);
    const NodeView seen = view(cluster_, node);
    const bool full = seen.state.members_left == 0;
    if (full || !fits(seen, ask) || (eligible != nullptr && !(*eligible)(node))) continue;
    const Offer offer = policy_->offer(seen, ask);
    candidates.push_back({node, offer.score});
    near.push_back(kNearWeight * nearness(seen, offer.choice));
  }
  if (candidates.empty()) return std::nullopt;
  policy_->compare(ask, candidates);
  for (std::size_t i = 0; i < near.size(); ++i) candidates[i].score += near[i];
  const auto best = std::ranges::max_element(candidates, {}, &Candidate::score);
  const NodeView chosen = view(cluster_, best->node);
  return spot_of(chosen, ask, policy_->choose(chosen, ask));
}

// The GPUs that were not named are as good as broken.
std::optional<Spot> Placer::choose_pinned(const Ask& ask, const Eligible& eligible) {
  std::optional<Spot> best;
  float best_score = 0;
  for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
    const NodeId node(i);
    if (!eligible(node)) continue;
    NodeState masked = cluster_.state(node);
    const std::uint16_t named = eligible.devices(node);
    masked.usable &= named;
    masked.whole &= named;
    for (std::size_t device = 0; device < kMaxDevices; ++device) {
      if ((named >> device & 1) == 0) masked.free[device] = 0;
    }
    masked.most_free = *std::ranges::max_element(masked.free);
    const NodeView seen{masked, cluster_.shape(node), node, nullptr};
    if (!fits(seen, ask) || masked.members_left == 0) continue;
    const Offer offer = policy_->settle(seen, ask);
    if (best && !(offer.score > best_score)) continue;
    best = spot_of(seen, ask, offer.choice);
    best_score = offer.score;
  }
  return best;
}

std::vector<HoldingId> take_all(Cluster& cluster, std::span<const Spot> spots, std::uint64_t job,
                                std::int32_t priority, bool preemptible) {
  std::vector<HoldingId> holdings;
  holdings.reserve(spots.size());
  for (const Spot& spot : spots) holdings.push_back(cluster.take(spot, job, priority, preemptible));
  return holdings;
}

}  // namespace divvy::place
