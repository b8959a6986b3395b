// What a policy offers for one ask on every group of nodes, kept up to date by the groups' log of
// changes: between two decisions only what changed is scored again. The best one is found through
// the best of every block of groups.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "place/node_groups.h"
#include "place/policy.h"

namespace divvy::place {

class ScoreTable {
 public:
  static constexpr float kNoFit = -std::numeric_limits<float>::infinity();

  // All outlive it.
  ScoreTable(const Cluster& cluster, NodeGroups& groups, Policy& policy, const Ask& ask);

  // Looks at what changed since the last call.
  void catch_up();

  // The group with the highest score, of equal ones the lowest number.
  [[nodiscard]] std::optional<GroupId> best() const;
  // The same among groups for which `allowed` says yes; it is asked as rarely as possible.
  template <typename Allowed>
  [[nodiscard]] std::optional<GroupId> best_where(const Allowed& allowed) const;

  [[nodiscard]] float score(GroupId group) const { return scores_[group]; }
  // Corrects a score, or takes a group out until put back.
  void set(GroupId group, float score);

  // Could a node of the group take an ask? May say yes where no node of a rough group can.
  [[nodiscard]] bool may_fit(GroupId group, const Ask& ask) const;

  [[nodiscard]] std::size_t bytes() const {
    return (scores_.capacity() + best_.capacity()) * sizeof(float);
  }

 private:
  static constexpr std::size_t kBlock = 64;

  [[nodiscard]] bool may_fit(GroupId group) const;
  // Uses the list for its own purposes.
  void score_again(std::span<GroupId> groups);
  void grow();
  [[nodiscard]] bool has_score(GroupId group) const {
    return (scored_[group / kBlock] >> (group % kBlock) & 1) != 0;
  }

  const Cluster& cluster_;
  NodeGroups& groups_;
  Policy& policy_;
  const Ask ask_;
  const std::uint32_t part_at_least_;  // thousandths of one GPU that have to be free
  std::vector<float> scores_;          // by group, filled up to whole blocks
  std::vector<float> best_;            // by block
  std::vector<std::uint64_t> scored_;  // by block, a bit for each group that is not at kNoFit
  // By shape of nodes: whether the ask fits on one whose summary says so.
  enum class Hosts : std::uint8_t { kNever, kAlways, kPerhaps };
  std::vector<Hosts> hosts_;
  std::uint64_t seen_ = 0;  // of the groups' log
  bool fresh_ = true;
};

template <typename Allowed>
std::optional<GroupId> ScoreTable::best_where(const Allowed& allowed) const {
  float best = kNoFit;
  std::optional<GroupId> found;
  for (std::size_t block = 0; block < best_.size(); ++block) {
    if (!(best_[block] > best)) continue;
    for (std::size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      if (!(scores_[i] > best) || !allowed(static_cast<GroupId>(i))) continue;
      best = scores_[i];
      found = static_cast<GroupId>(i);
    }
  }
  return found;
}

}  // namespace divvy::place
