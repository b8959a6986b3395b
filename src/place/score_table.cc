#include "place/score_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include <boost/container/static_vector.hpp>

namespace divvy::place {
namespace {

using Four [[gnu::vector_size(16)]] = float;

Four larger(Four a, Four b) { return a > b ? a : b; }

// Of scores, a multiple of 16 of them: they are compared many at a time.
float largest(std::span<const float> scores) {
  std::array<Four, 4> most{};
  for (Four& four : most) four = Four{} + ScoreTable::kNoFit;
  for (std::size_t i = 0; i < scores.size(); i += 16) {
    for (std::size_t part = 0; part < 4; ++part) {
      Four next;
      std::memcpy(&next, &scores[i + 4 * part], sizeof next);
      most[part] = larger(most[part], next);
    }
  }
  const Four all = larger(larger(most[0], most[1]), larger(most[2], most[3]));
  return std::max(std::max(all[0], all[1]), std::max(all[2], all[3]));
}

}  // namespace

ScoreTable::ScoreTable(const Cluster& cluster, NodeGroups& groups, Policy& policy, const Ask& ask)
    : cluster_(cluster),
      groups_(groups),
      policy_(policy),
      ask_(ask),
      part_at_least_(ask.part_memory == 0 ? ask.part : 0) {}

void ScoreTable::catch_up() {
  grow();
  // With more changes than groups, looking at every group is less.
  const std::uint64_t behind = groups_.log_end() - seen_;
  if (fresh_ || seen_ < groups_.log_begin() || behind > 4 * groups_.size()) {
    std::vector<GroupId> all(groups_.size());
    std::iota(all.begin(), all.end(), 0);
    score_again(all);
    fresh_ = false;
  } else {
    score_again(groups_.changed_since(seen_));
  }
  seen_ = groups_.log_end();
}

// What is needed of each group lies anywhere in memory. So it is asked for while others are still
// being sorted out.
void ScoreTable::score_again(std::span<GroupId> groups) {
  std::size_t fitting = 0;
  for (const GroupId group : groups) {
    if (may_fit(group)) {
      __builtin_prefetch(&scores_[group]);
      groups_.prefetch(group);
      groups[fitting++] = group;
    } else if (has_score(group)) {
      set(group, kNoFit);
    }
  }
  constexpr std::size_t kAtOnce = 16;
  std::array<float, kAtOnce> scores{};
  for (std::size_t from = 0; from < fitting; from += kAtOnce) {
    boost::container::static_vector<NodeView, kAtOnce> views;
    for (const GroupId group : groups.subspan(from, std::min(kAtOnce, fitting - from))) {
      const NodeState& state = groups_.state(group);
      views.push_back({state, cluster_.shapes()[state.shape], NodeId(group), groups_.note(group)});
    }
    policy_.offer_all({views.data(), views.size()}, ask_, scores);
    for (std::size_t i = 0; i < views.size(); ++i) set(groups[from + i], scores[i]);
  }
}

void ScoreTable::grow() {
  for (std::size_t shape = hosts_.size(); shape < cluster_.shapes().size(); ++shape) {
    // The usual ask on the usual node needs no look at every GPU.
    const ModelSet models = cluster_.shapes()[shape].models;
    const bool plain = ask_.part_memory == 0 && ask_.whole_memory == 0 &&
                       (ask_.whole == 0 || ask_.part == 0) &&
                       ask_.gpus_near == Closeness::kAnywhere && std::has_single_bit(models);
    hosts_.push_back(!ask_.wants_gpu()             ? Hosts::kAlways
                     : !plain                      ? Hosts::kPerhaps
                     : (models & ask_.models) != 0 ? Hosts::kAlways
                                                   : Hosts::kNever);
  }
  if (groups_.size() <= scores_.size()) return;
  // A multiple of 16 blocks, see largest().
  const std::size_t blocks = ((groups_.size() + groups_.size() / 2) / kBlock + 1 + 15) / 16 * 16;
  scores_.resize(blocks * kBlock, kNoFit);
  best_.resize(blocks, kNoFit);
  scored_.resize(blocks, 0);
}

bool ScoreTable::may_fit(GroupId group) const {
  const NodeGroups::Summary& summary = groups_.summary(group);
  // All at once: one branch that is foreseen badly is better than five.
  const unsigned enough = static_cast<unsigned>(summary.open) &
                          static_cast<unsigned>(summary.cpu_most >= ask_.cpu_milli) &
                          static_cast<unsigned>(summary.whole_count >= ask_.whole) &
                          static_cast<unsigned>(summary.most_free >= part_at_least_) &
                          static_cast<unsigned>(hosts_[summary.shape] != Hosts::kNever);
  if (enough == 0) return false;
  return hosts_[summary.shape] == Hosts::kAlways || may_fit(group, ask_);
}

bool ScoreTable::may_fit(GroupId group, const Ask& ask) const {
  const NodeGroups::Summary& summary = groups_.summary(group);
  if (!summary.open || summary.cpu_most < ask.cpu_milli) return false;
  if (!ask.wants_gpu()) return true;
  if (summary.whole_count < ask.whole) return false;
  if (ask.part_memory == 0 && ask.part > summary.most_free) return false;
  const NodeState& state = groups_.state(group);
  const NodeShape& shape = cluster_.shapes()[state.shape];
  // The usual ask on the usual node needs no look at every GPU.
  const bool plain = ask.part_memory == 0 && ask.whole_memory == 0 &&
                     (ask.whole == 0 || ask.part == 0) && ask.gpus_near == Closeness::kAnywhere;
  if (plain && std::has_single_bit(shape.models)) return (shape.models & ask.models) != 0;
  // Which GPUs are close to each other differs between the nodes of a rough group.
  Ask anywhere = ask;
  if (!groups_.each_alone()) anywhere.near_required = false;
  return devices_to_use({state, shape, NodeId(group), nullptr}, anywhere) != 0;
}

void ScoreTable::set(GroupId group, float score) {
  const float before = scores_[group];
  if (before == score) return;
  scores_[group] = score;
  const std::uint64_t bit = std::uint64_t{1} << (group % kBlock);
  std::uint64_t& scored = scored_[group / kBlock];
  scored = score == kNoFit ? scored & ~bit : scored | bit;
  float& best = best_[group / kBlock];
  if (score >= best) {
    best = score;
  } else if (before == best) {
    best = largest({&scores_[group / kBlock * kBlock], kBlock});
  }
}

std::optional<GroupId> ScoreTable::best() const {
  const float most = largest(best_);
  if (most == kNoFit) return std::nullopt;
  const auto block = std::ranges::find(best_, most) - best_.begin();
  const auto begin = scores_.begin() + block * static_cast<std::ptrdiff_t>(kBlock);
  return static_cast<GroupId>(std::find(begin, begin + kBlock, most) - scores_.begin());
}

}  // namespace divvy::place
