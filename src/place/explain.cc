#include "place/explain.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "place/explain_words.h"

namespace divvy::place {
namespace {

// Nodes or GPUs that are tried out as repaired; a fleet with more broken ones has other worries.
constexpr std::size_t kMostRepairs = 16;
constexpr std::size_t kMostTaints = 3;
// Nodes that a remedy for a gang names before it only counts them.
constexpr std::size_t kNamedNodes = 3;

bool gpus_matter(Refusal refusal) { return refusal >= Refusal::kUnhealthy; }

Refusal refusal_of(const NodeTrial& node, const Ask& ask, const Eligible& eligible) {
  if (!node.state().open) return Refusal::kClosed;
  const Refusal by_name = eligible.why_not(node.node());
  if (by_name != Refusal::kNone) return by_name;
  const Refusal refusal = node.why_not(ask);
  // GPUs that the request does not name count as unusable, which is not their fault.
  if (refusal == Refusal::kUnhealthy) {
    const NodeTrial best_of = [&] {
      NodeTrial trial = node;
      for (std::size_t i = 0; i < trial.shape().devices; ++i) trial.heal(i);
      return trial;
    }();
    if (best_of.why_not(ask) == Refusal::kUnhealthy) return Refusal::kNotNamed;
  }
  return refusal;
}

void look_at_nodes(const Cluster& cluster, const Request& request, const Ask& ask,
                   Explanation& result) {
  const Eligible eligible(cluster, request);
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    const NodeId node(i);
    const NodeTrial trial(cluster, node, eligible.devices(node));
    NodeReason reason;
    reason.node = node;
    reason.name = cluster.spec(node).name;
    reason.refusal = refusal_of(trial, ask, eligible);
    ++result.by_reason[reason.refusal];
    if (reason.refusal == Refusal::kNone) {
      const std::uint32_t most = request.spread && request.spread->domain == Closeness::kNode
                                     ? std::min(request.spread->most, request.members)
                                     : request.members;
      reason.members_fit = trial.count(ask, most);
      reason.text = fmt::format("{} fit{}", count_words(reason.members_fit, "member"),
                                reason.members_fit == 1 ? "s" : "");
    } else {
      reason.text = refusal_words(cluster, request, ask, eligible, trial, reason.refusal);
    }
    if (gpus_matter(reason.refusal)) reason.devices = device_words(cluster, ask, trial);
    if (eligible(node)) {
      if (const auto missing = shortfall(trial, ask)) reason.missing = missing->cost;
    }
    result.nodes.push_back(std::move(reason));
  }
}

// What stands in the way on the best node that there could ever be.
std::string why_never(const Cluster& cluster, const Request& request, const Ask& ask,
                      std::uint32_t at_best, std::uint32_t least) {
  if (at_best != 0) {
    const Near& near = request.members_near;
    if (near.required && near.closeness != Closeness::kAnywhere) {
      return fmt::format("{} has room for at most {} of the {} members, also when it is empty",
                         group_words(near.closeness), at_best, least);
    }
    return fmt::format("the cluster has room for {} of the {} members, also when it is empty",
                       at_best, least);
  }
  const Eligible eligible(cluster, request);
  Refusal by_name = Refusal::kNone;
  Refusal by_size = Refusal::kNone;
  for (std::uint32_t i = 0; i < cluster.size(); ++i) {
    const NodeId node(i);
    const Refusal named = eligible.why_not(node);
    if (named != Refusal::kNone) {
      by_name = std::max(by_name, named);
      continue;
    }
    const auto trial = NodeTrial::at_its_best(cluster, node, eligible.devices(node));
    by_size = std::max(by_size, trial.why_not(ask));
  }
  return never_words(request, ask, by_size == Refusal::kNone ? by_name : by_size);
}

class Remedies {
 public:
  Remedies(Placer& placer, const Request& request, const Ask& ask, std::size_t most)
      : placer_(placer), cluster_(placer.cluster()), request_(request), ask_(ask), most_(most) {}

  void by_freeing() {
    if (request_.least() == 1) {
      by_freeing_on_one_node();
    } else if (const auto room = find_room(cluster_, request_, request_.least())) {
      if (room->cost != 0 && helps(room->missing)) add(RemedyKind::kFree, room->cost, words(*room));
    }
  }

  void by_repair();
  void by_lifting_exclusions();
  void by_asking_otherwise(std::uint32_t fit_now);

  std::vector<Remedy> take() { return std::move(found_); }

 private:
  void by_freeing_on_one_node();
  void ask_for_less();

  [[nodiscard]] bool helps(const std::vector<Shortfall>& freed) {
    const Cluster::Mark mark = cluster_.mark();
    for (const Shortfall& shortfall : freed) free_up(cluster_, shortfall);
    const bool fits = !placer_.plan(request_).empty();
    cluster_.rollback(mark);
    return fits;
  }
  bool try_instead(const Request& other, std::string text) {
    if (!check(other) || placer_.plan(other).empty()) return false;
    add(RemedyKind::kRequest, 0, std::move(text));
    return true;
  }
  void add(RemedyKind kind, std::uint64_t cost, std::string text) {
    const auto place = std::ranges::upper_bound(
        found_, std::pair(kind, cost), {},
        [](const Remedy& remedy) { return std::pair(remedy.kind, remedy.cost); });
    found_.insert(place, {kind, cost, std::move(text)});
  }
  [[nodiscard]] std::string name_of(NodeId node) const {
    return escape_for_terminal(cluster_.spec(node).name);
  }
  [[nodiscard]] std::string words(const Room& room) const {
    if (room.missing.size() > kNamedNodes) {
      return fmt::format("room for {} is freed on {}, such as {}",
                         count_words(room.spots.size() - room.fit_now, "more member"),
                         count_words(room.missing.size(), "node"),
                         shortfall_words(cluster_, room.missing.front()));
    }
    std::vector<std::string> pieces;
    pieces.reserve(room.missing.size());
    for (const Shortfall& shortfall : room.missing) {
      pieces.push_back(shortfall_words(cluster_, shortfall));
    }
    return list_words(pieces);
  }

  Placer& placer_;
  Cluster& cluster_;
  const Request& request_;
  const Ask& ask_;
  std::size_t most_;
  std::vector<Remedy> found_;  // the smallest first
};

void Remedies::by_freeing_on_one_node() {
  const Eligible eligible(cluster_, request_);
  std::vector<Shortfall> all;
  for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
    const NodeId node(i);
    if (!eligible(node)) continue;
    auto missing = shortfall(NodeTrial(cluster_, node, eligible.devices(node)), ask_);
    if (missing && missing->cost != 0) all.push_back(*std::move(missing));
  }
  const std::size_t wanted = std::min(all.size(), most_);
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(wanted), {},
                            [](const Shortfall& s) { return std::pair(s.cost, s.node); });
  for (std::size_t i = 0; i < wanted; ++i) {
    if (helps({all[i]})) add(RemedyKind::kFree, all[i].cost, shortfall_words(cluster_, all[i]));
  }
}

void Remedies::by_lifting_exclusions() {
  std::vector<NodeId> excluded;
  for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
    if (cluster_.excluded(request_.tenant, NodeId(i))) excluded.push_back(NodeId(i));
  }
  for (std::size_t i = 0; i < std::min(excluded.size(), kMostRepairs); ++i) {
    // As if this were the only one that is lifted.
    Request other = request_;
    other.tenant.clear();
    for (const NodeId node : excluded) {
      if (node != excluded[i]) other.excluded_nodes.push_back(cluster_.spec(node).name);
    }
    if (placer_.plan(other).empty()) continue;
    add(RemedyKind::kRepair, 2,
        fmt::format("tenant {} may use {} again", escape_for_terminal(request_.tenant),
                    name_of(excluded[i])));
  }
}

void Remedies::by_repair() {
  const Eligible eligible(cluster_, request_);
  std::size_t tried = 0;
  for (std::uint32_t i = 0; i < cluster_.size() && tried < kMostRepairs; ++i) {
    const NodeId node(i);
    if (!eligible(node)) continue;
    if (!cluster_.state(node).open) {
      const std::string reason = cluster_.cordon_reason(node);
      ++tried;
      cluster_.cordon(node, {});
      const bool fits = !placer_.plan(request_).empty();
      cluster_.cordon(node, reason);
      if (fits) add(RemedyKind::kRepair, 1, fmt::format("{} takes work again", name_of(node)));
      continue;
    }
    std::vector<std::size_t> broken;
    for (std::size_t gpu = 0; gpu < cluster_.shape(node).devices; ++gpu) {
      if (!cluster_.unusable_reason(node, gpu).empty()) broken.push_back(gpu);
    }
    for (std::size_t gpu = 0; gpu < broken.size() && tried < kMostRepairs; ++gpu) {
      const std::string reason = cluster_.unusable_reason(node, broken[gpu]);
      ++tried;
      cluster_.set_unusable(node, broken[gpu], {});
      const bool fits = !placer_.plan(request_).empty();
      cluster_.set_unusable(node, broken[gpu], reason);
      if (fits) {
        add(RemedyKind::kRepair, 0,
            fmt::format("gpu{} of {} becomes healthy", broken[gpu], name_of(node)));
      }
    }
  }
}

void Remedies::by_asking_otherwise(std::uint32_t fit_now) {
  const auto without = [&](auto change, std::string text) {
    Request other = request_;
    change(other);
    try_instead(other, std::move(text));
  };
  if (!request_.allowed_models.empty() || !request_.denied_models.empty()) {
    without(
        [](Request& other) {
          other.allowed_models.clear();
          other.denied_models.clear();
        },
        "the request allows every GPU model");
  }
  if (!request_.labels.empty()) {
    without([](Request& other) { other.labels.clear(); }, "the request asks for no label");
  }
  std::set<std::string> taints;
  for (std::uint32_t i = 0; i < cluster_.size() && taints.size() < kMostTaints; ++i) {
    for (const std::string& taint : cluster_.spec(NodeId(i)).taints) {
      if (std::ranges::find(request_.tolerations, taint) == request_.tolerations.end()) {
        taints.insert(taint);
      }
    }
  }
  for (const std::string& taint : taints) {
    without([&](Request& other) { other.tolerations.push_back(taint); },
            fmt::format("the request tolerates the taint {}", escape_for_terminal(taint)));
  }
  if (request_.gpus.required) {
    without([](Request& other) { other.gpus.required = false; },
            fmt::format("the GPUs need not be in {}", group_words(request_.gpus.closeness)));
  }
  if (request_.members_near.required) {
    without(
        [](Request& other) { other.members_near.required = false; },
        fmt::format("the members need not be in {}", group_words(request_.members_near.closeness)));
  }
  if (request_.spread) {
    without([](Request& other) { other.spread.reset(); },
            fmt::format("more than {} may be in {}", count_words(request_.spread->most, "member"),
                        group_words(request_.spread->domain)));
  }
  if (!request_.nodes.empty()) {
    without([](Request& other) { other.nodes.clear(); }, "the request names no nodes");
  }
  if (!request_.devices.empty()) {
    without([](Request& other) { other.devices.clear(); }, "the request names no GPUs");
  }
  if (!request_.excluded_nodes.empty()) {
    without([](Request& other) { other.excluded_nodes.clear(); }, "the request excludes no nodes");
  }
  if (fit_now != 0 && fit_now < request_.least()) {
    without(
        [&](Request& other) { other.least_members = fit_now; },
        fmt::format("{} {} enough", count_words(fit_now, "member"), fit_now == 1 ? "is" : "are"));
  }
  ask_for_less();
}

// Fewer whole GPUs, a smaller part or less memory, as much as there is.
void Remedies::ask_for_less() {
  for (std::uint32_t gpus = request_.member.whole_gpus; gpus-- > 1;) {
    Request other = request_;
    other.member.whole_gpus = gpus;
    const Share share(gpus * Share::kWhole + request_.member.part.thousandths());
    if (try_instead(other, fmt::format("it asks for {} GPU{}", share,
                                       share > Share::whole_gpus(1) ? "s" : ""))) {
      break;
    }
  }
  if (!ask_.wants_part()) return;
  const Eligible eligible(cluster_, request_);
  std::uint32_t share = 0;
  std::uint64_t memory = 0;
  for (std::uint32_t i = 0; i < cluster_.size(); ++i) {
    const NodeId node(i);
    if (!eligible(node) || !cluster_.state(node).open) continue;
    const NodeTrial trial(cluster_, node, eligible.devices(node));
    for (std::size_t gpu = 0; gpu < trial.shape().devices; ++gpu) {
      if ((trial.state().usable >> gpu & 1) == 0) continue;
      share = std::max<std::uint32_t>(share, trial.state().free[gpu]);
      if (trial.state().share_free[gpu] >= ask_.part) {
        memory = std::max(memory, trial.state().memory_free[gpu]);
      }
    }
  }
  Request other = request_;
  if (ask_.part_memory != 0) {
    if (memory == 0 || memory >= ask_.part_memory) return;
    other.member.memory = Bytes(memory);
    try_instead(other, fmt::format("it asks for {} of GPU memory", size_words(memory)));
  } else if (share != 0 && share < ask_.part) {
    other.member.part = Share(share);
    try_instead(other, fmt::format("it asks for {} GPU",
                                   Share(other.member.whole_gpus * Share::kWhole + share)));
  }
}

}  // namespace

Explanation explain(Placer& placer, const Request& request, ExplainLimits limits) {
  Cluster& cluster = placer.cluster();
  const Ask ask = cluster.ask_of(request);
  Explanation result;
  result.name = request.name;
  result.asked = describe(request.member);
  result.members = request.members;
  result.least = request.least();
  look_at_nodes(cluster, request, ask, result);
  const std::size_t planned = placer.plan(request).size();
  result.fits = planned != 0;
  if (result.fits) {
    result.fit_now = static_cast<std::uint32_t>(planned);
    return result;
  }
  // The policy may put gangs together in a way that leaves fewer places than there could be.
  result.fit_now = std::min(members_that_fit(cluster, request, request.members), result.least - 1);
  Remedies remedies(placer, request, ask, limits.remedies);
  const std::uint32_t at_best = members_at_best(cluster, request, result.least);
  if (at_best < result.least) {
    result.never = why_never(cluster, request, ask, at_best, result.least);
  } else {
    remedies.by_freeing();
    remedies.by_repair();
  }
  remedies.by_lifting_exclusions();
  remedies.by_asking_otherwise(result.fit_now);
  result.remedies = remedies.take();
  return result;
}

}  // namespace divvy::place
