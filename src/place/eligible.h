// Which nodes a request may use at all: names, labels, taints, exclusions, and how many members
// already went where. Built once per decision; most requests say nothing about nodes, and then it
// costs nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "place/cluster.h"
#include "place/fit.h"
#include "place/request.h"

namespace divvy::place {

class Eligible {
 public:
  // Both outlive it.
  Eligible(const Cluster& cluster, const Request& request);

  // Nothing restricts it: every open node will do.
  [[nodiscard]] bool everywhere() const { return everywhere_; }
  [[nodiscard]] bool operator()(NodeId node) const { return why_not(node) == Refusal::kNone; }
  [[nodiscard]] Refusal why_not(NodeId node) const;
  // The label, taint or name that stands in the way, for messages.
  [[nodiscard]] std::string what(NodeId node) const;

  // Of the pinned devices, those on this node; all where none is pinned.
  [[nodiscard]] std::uint16_t devices(NodeId node) const;

  // A member of this request went there; counts for the spread rule.
  void place(NodeId node);
  // Only nodes of this domain from now on (a gang that has to be close); nothing lifts it.
  void restrict_to(Closeness level, std::optional<std::uint32_t> domain);

 private:
  [[nodiscard]] std::uint32_t domain_of(Closeness level, NodeId node) const;

  const Cluster& cluster_;
  const Request& request_;
  bool everywhere_ = true;
  std::vector<std::uint32_t> members_in_;  // by domain of the spread rule
  Closeness level_ = Closeness::kAnywhere;
  std::optional<std::uint32_t> domain_;
};

}  // namespace divvy::place
