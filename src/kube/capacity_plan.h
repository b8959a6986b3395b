// The one object in which the controller says what is free, what would be moved and which nodes the
// line waits for (`capacityplans.divvy.dev`, named `divvy`; docs/kubernetes-capacity.md): what its
// document says of kinds of nodes, the kinds that the nodes of a cluster are of, and its status.
// Pure; any document is safe to read.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/fleet.h"
#include "jobs/growth.h"
#include "kube/cluster_objects.h"
#include "kube/defragmentation.h"

namespace divvy::kube {

inline constexpr std::string_view kCapacityPlanName = "divvy";

struct CapacityPlanObject {
  ObjectFacts object;
  std::vector<jobs::NodeKind> kinds = {};  // that can be added, as somebody wrote them
  std::string problem = {};                // what is wrong with it; empty: nothing
  std::uint64_t generation = 0;
  boost::json::object status = {};  // as it is now
};
[[nodiscard]] Result<CapacityPlanObject> read_capacity_plan(const boost::json::object& plan);

// A kind for the nodes that are alike: in their GPUs, what they are for (taints) and the label of
// their instance type, by which it is called, or else by the first of them. Nodes that are lost or
// have no GPUs are of no kind.
[[nodiscard]] std::vector<jobs::NodeKind> kinds_of(const jobs::Fleet& fleet);

// What is told. Names are of pods, or of their gangs.
struct CapacityReport {
  struct Wanted {
    jobs::NodeKind kind;
    std::uint32_t nodes = 0;
    std::vector<std::string> pods = {};  // who starts there
  };
  jobs::FreeRoom room;
  Defragmentation mode = Defragmentation::kOff;
  std::optional<PlannedMoves> moves = std::nullopt;
  bool moving = false;
  std::vector<Wanted> wanted = {};
  std::vector<std::string> not_helped = {};
};
[[nodiscard]] boost::json::object capacity_status(const CapacityPlanObject& plan,
                                                  const CapacityReport& report, WallTime now);

}  // namespace divvy::kube
