// Nodes that are the same to a policy, taken together: there are thousands of nodes and only so
// many different states. Follows the cluster's log of changes; what changes here goes into a log of
// its own, by which the score tables follow.
//
// For a policy that wants every node as it is, each node is a group by itself and has its own
// number. For a rough one (Policy::rough) nodes of one shape with the same left on their GPUs and
// nearly as many CPUs are one group, whose state has the fewest CPUs that a node in it can have.
// What is decided for a group holds for most of its nodes: the caller looks at the node itself
// before it takes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include "place/cluster.h"

namespace divvy::place {

using GroupId = std::uint32_t;

class NodeGroups {
 public:
  // The cluster outlives it. `cpu_steps` are the amounts of free CPUs that make a difference, in
  // thousandths, ascending; empty: every node is a group.
  NodeGroups(const Cluster& cluster, std::vector<std::int64_t> cpu_steps);

  // Takes in what changed in the cluster.
  void catch_up();

  [[nodiscard]] bool each_alone() const { return cpu_steps_.empty(); }
  // Numbers below this are in use or were.
  [[nodiscard]] std::size_t size() const { return states_.size(); }
  [[nodiscard]] const NodeState& state(GroupId group) const { return states_[group]; }

  // What rules most groups out, in one place of its own: it is looked at far more often than the
  // rest.
  struct Summary {
    std::int64_t cpu_most = 0;  // the most CPUs that a node in it can have free
    std::uint16_t most_free = 0;
    ShapeId shape = 0;
    std::uint8_t whole_count = 0;
    bool open = false;  // there are nodes in it, and they take members
  };
  [[nodiscard]] const Summary& summary(GroupId group) const { return summaries_[group]; }

  // Asks for the memory of a group that will be looked at soon.
  void prefetch(GroupId group) const {
    for (std::size_t line = 0; line < 3; ++line) {
      __builtin_prefetch(reinterpret_cast<const char*>(&states_[group]) + 64 * line);
    }
    __builtin_prefetch(&notes_[group]);
  }

  // See NodeView::note.
  [[nodiscard]] float* note(GroupId group) { return &notes_[group]; }

  // The nodes of a group, the one that came last first.
  static constexpr std::uint32_t kEnd = ~0U;
  [[nodiscard]] std::uint32_t first(GroupId group) const { return heads_[group].first; }
  [[nodiscard]] std::uint32_t next(std::uint32_t node) const { return links_[node].next; }

  // What changed: as in Cluster.
  [[nodiscard]] std::uint64_t log_begin() const {
    return log_end_ < kLogSize ? 0 : log_end_ - kLogSize;
  }
  [[nodiscard]] std::uint64_t log_end() const { return log_end_; }
  // The groups in the log from this entry on, each once, in the order of their last changes. The
  // caller may do with the list what it likes until the next call.
  [[nodiscard]] std::span<GroupId> changed_since(std::uint64_t entry);

 private:
  static constexpr std::uint64_t kLogSize = 1U << 16;

  struct Head {
    std::uint64_t key = 0;
    std::uint32_t first = kEnd;
    std::uint32_t count = 0;
  };
  struct Link {
    GroupId group = kEnd;
    std::uint32_t previous = kEnd;
    std::uint32_t next = kEnd;
  };

  void resize(std::size_t groups);
  void look_at(NodeId node);
  void attach(std::uint32_t node);
  void detach(std::uint32_t node);
  void touch(GroupId group, std::int64_t cpu_most);
  [[nodiscard]] std::size_t step_of(std::int64_t cpu) const;
  [[nodiscard]] std::uint64_t key_of(const NodeState& state, std::size_t step) const;

  const Cluster& cluster_;
  std::vector<std::int64_t> cpu_steps_;
  // By group. Apart from each other, because they are looked at on different occasions.
  std::vector<NodeState> states_;
  std::vector<float> notes_;
  std::vector<Head> heads_;
  std::vector<Summary> summaries_;
  std::vector<std::uint32_t> last_logged_;  // the last log entry, as far as it fits
  std::vector<Link> links_;                 // by node
  std::vector<GroupId> free_;
  boost::unordered_flat_map<std::uint64_t, GroupId> by_key_;
  std::vector<GroupId> log_;
  std::vector<GroupId> changed_;
  std::uint64_t log_end_ = 0;
  std::uint64_t seen_ = 0;  // of the cluster's log
};

}  // namespace divvy::place
