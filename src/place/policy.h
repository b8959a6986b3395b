// The seam of the policies: which node, and which GPUs of it. A policy gives every node on which a
// member fits a score, and the highest one wins; of equal ones the node that was added first. A
// file for each policy is in this folder (policy_*.cc); docs/guides/write-a-policy.md tells how to
// add one.
//
// Scores are a function of the node's state and the ask and nothing else, so that they can be kept
// until the node changes (score_table.h). Policies that compare the candidates with each other say
// so. Called by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "place/fit.h"
#include "place/workload.h"

namespace divvy::place {

struct Offer {
  Choice choice;
  float score = 0;
};

struct Candidate {
  NodeId node;
  float score = 0;
};

// Against scores from 0 to 100: nearness decides only between placements that are otherwise equal.
inline constexpr float kNearWeight = 0.001F;

class Policy {
 public:
  Policy() = default;
  virtual ~Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  // Before the first decision, and again when nodes were added or the workload is another.
  virtual void prepare(const Cluster& cluster, const Workload& workload);

  // The GPUs to use on this node, on which the ask fits.
  [[nodiscard]] virtual Choice choose(const NodeView& node, const Ask& ask);

  // How good that is; higher is better. Published policies answer from 0 to 100.
  [[nodiscard]] virtual float score(const NodeView& node, const Ask& ask, const Choice& choice) = 0;

  // Both at once, with how near the GPUs are; for policies that find the GPUs by scoring them.
  [[nodiscard]] virtual Offer offer(const NodeView& node, const Ask& ask);

  // The scores of several at once, in their order: a policy that looks up what it remembers can ask
  // for all of that memory first.
  virtual void offer_all(std::span<const NodeView> nodes, const Ask& ask, std::span<float> scores);

  // The same for a candidate that would win. A policy whose offers are guesses works it out here;
  // if that is less than what another one offers, that one is asked next.
  [[nodiscard]] virtual Offer settle(const NodeView& node, const Ask& ask) {
    return offer(node, ask);
  }

  // Whether nodes that differ a little in free CPUs may share a score, and rare asks may use that
  // of a similar one: much faster, and not byte for byte what score() says. Such a policy must not
  // look at NodeView::id or NodeState::kinds.
  [[nodiscard]] virtual bool rough() const { return false; }

  // Whether score() is not the last word: then all candidates are given to compare(), in the order
  // of the nodes, which may change their scores. Costs a look at every node for each decision.
  [[nodiscard]] virtual bool compares() const { return false; }
  virtual void compare(const Ask& ask, std::span<Candidate> candidates);
};

struct PolicyInfo {
  std::string_view name;
  std::string_view summary;  // one line for --help
};
[[nodiscard]] std::span<const PolicyInfo> policies();

// "fgd", or several by weights: "divvy=3,spread=1". `seed` is for policies that draw lots. An
// unknown name is refused with the nearest that exists.
[[nodiscard]] Result<std::unique_ptr<Policy>> make_policy(std::string_view text,
                                                          std::uint64_t seed = 1);

}  // namespace divvy::place
