#include "place/score_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace divvy::place {

ScoreTable::ScoreTable(const Cluster& cluster, NodeGroups& groups, Policy& policy, const Ask& ask)
    : cluster_(cluster), groups_(groups), policy_(policy), ask_(ask) {}

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

// What is needed of each group lies anywhere in memory, so it is asked for a few groups ahead.
void ScoreTable::score_again(std::span<const GroupId> groups) {
  constexpr std::size_t kAtOnce = 16;
  std::array<GroupId, kAtOnce> fitting{};
  std::array<float, kAtOnce> scores{};
  std::vector<NodeView> views;
  views.reserve(kAtOnce);
  for (const GroupId group : groups) __builtin_prefetch(&scores_[group]);
  const auto offer_all = [&] {
    policy_.offer_all(views, ask_, scores);
    for (std::size_t i = 0; i < views.size(); ++i) set(fitting[i], scores[i]);
    views.clear();
  };
  for (const GroupId group : groups) {
    if (!may_fit(group, ask_)) {
      set(group, kNoFit);
      continue;
    }
    const NodeState& state = groups_.state(group);
    fitting[views.size()] = group;
    views.push_back({state, cluster_.shapes()[state.shape], NodeId(group), groups_.note(group)});
    if (views.size() == kAtOnce) offer_all();
  }
  offer_all();
}

void ScoreTable::grow() {
  if (groups_.size() <= scores_.size()) return;
  const std::size_t blocks = (groups_.size() + groups_.size() / 2 + kBlock) / kBlock;
  scores_.resize(blocks * kBlock, kNoFit);
  best_.resize(blocks, kNoFit);
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
  float& best = best_[group / kBlock];
  if (score >= best) {
    best = score;
  } else if (before == best) {
    const auto begin = scores_.begin() + static_cast<std::ptrdiff_t>(group / kBlock * kBlock);
    best = *std::max_element(begin, begin + kBlock);
  }
}

std::optional<GroupId> ScoreTable::best() const {
  // Four at a time, which compilers turn into vector instructions.
  std::array<float, 4> lanes{kNoFit, kNoFit, kNoFit, kNoFit};
  const std::size_t fours = best_.size() / 4 * 4;
  for (std::size_t i = 0; i < fours; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      lanes[lane] = best_[i + lane] > lanes[lane] ? best_[i + lane] : lanes[lane];
    }
  }
  float most = *std::ranges::max_element(lanes);
  for (std::size_t i = fours; i < best_.size(); ++i) most = std::max(most, best_[i]);
  if (most == kNoFit) return std::nullopt;
  const auto block = std::ranges::find(best_, most) - best_.begin();
  const auto begin = scores_.begin() + block * static_cast<std::ptrdiff_t>(kBlock);
  return static_cast<GroupId>(std::find(begin, begin + kBlock, most) - scores_.begin());
}

}  // namespace divvy::place
