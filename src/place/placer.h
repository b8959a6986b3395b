// Decides where requests go: the one engine that the queue, the simulator and Kubernetes use. Finds
// the best node by the policy's scores without looking at every node each time (score_table.h),
// puts gangs together, and never leaves half of one.
//
// plan() changes nothing that anybody can see: a gang is tried out on the cluster and taken back.
// Deterministic: the same events give the same decisions. Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "place/cluster.h"
#include "place/eligible.h"
#include "place/node_groups.h"
#include "place/policy.h"
#include "place/request.h"
#include "place/score_table.h"

namespace divvy::place {

class Placer {
 public:
  // The cluster outlives it. Nodes may be added at any time.
  Placer(Cluster& cluster, std::unique_ptr<Policy> policy);
  ~Placer();
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;

  // What is to be expected, for policies that look ahead; and again after nodes of a new kind came.
  void prepare(Workload workload);

  // The spots of all members, or none at all (fewer than request.least() fit). Takes nothing. The
  // request has passed check().
  [[nodiscard]] std::vector<Spot> plan(const Request& request);

  // For the many simple requests: one member that may go anywhere. Names are resolved once.
  [[nodiscard]] AskId intern(const Ask& ask);
  [[nodiscard]] const Ask& ask(AskId id) const { return asks_[id.value()].ask; }
  [[nodiscard]] std::optional<Spot> choose(AskId ask);

  [[nodiscard]] Cluster& cluster() { return cluster_; }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] Policy& policy() { return *policy_; }
  // What the tables take up, for benchmarks.
  [[nodiscard]] std::size_t table_bytes() const;

 private:
  struct Interned {
    Ask ask;
    AskId scored_as;                    // itself, or a similar one that has a table
    bool own_scores = true;             // what fits the one fits the other
    std::unique_ptr<ScoreTable> table;  // made with the first decision
  };

  void regroup();
  [[nodiscard]] AskId scored_as(const Ask& ask) const;
  void find_scores(Interned& interned);
  [[nodiscard]] ScoreTable& table(AskId ask);
  [[nodiscard]] std::optional<Spot> choose_where(AskId ask, const Eligible* eligible);
  [[nodiscard]] std::optional<Spot> choose_comparing(const Ask& ask, const Eligible* eligible);
  [[nodiscard]] std::optional<Spot> choose_pinned(const Ask& ask, const Eligible& eligible);
  [[nodiscard]] Spot spot_in(GroupId group, NodeId node, const Ask& ask);
  [[nodiscard]] std::optional<NodeId> node_of(GroupId group, const Ask& ask,
                                              const Eligible* eligible) const;

  // Places up to `count` members and takes them; returns how many.
  std::uint32_t place_one_by_one(AskId ask, const Request& request, Eligible& eligible,
                                 std::uint32_t count, std::vector<Spot>& spots);
  std::uint32_t place_among(AskId ask, std::span<const NodeId> nodes, Eligible& eligible,
                            std::uint32_t count, std::vector<Spot>& spots);
  std::uint32_t place_near(AskId ask, const Request& request, Eligible& eligible,
                           std::vector<Spot>& spots);

  Cluster& cluster_;
  std::unique_ptr<Policy> policy_;
  Workload workload_;
  std::unique_ptr<NodeGroups> groups_;
  std::vector<Interned> asks_;
  std::unordered_map<Ask, AskId, AskHash> by_ask_;
  std::vector<AskId> scored_;  // asks that have a table of their own though the policy is rough
};

// Takes all of them for one job.
std::vector<HoldingId> take_all(Cluster& cluster, std::span<const Spot> spots,
                                std::uint64_t job = 0, std::int32_t priority = 0,
                                bool preemptible = true);

}  // namespace divvy::place
