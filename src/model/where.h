// Where the members of a job may go: which nodes, and how close to each other GPUs and members
// should be. A part of model::JobSpec; placement looks at nothing but this and the request. Plain
// values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::model {

// How close things should be, from anywhere to closest.
enum class Closeness { kAnywhere, kZone, kRack, kNode, kNuma, kPcie, kNvlink };
[[nodiscard]] std::string_view to_string(Closeness closeness);
// "any", "zone", "rack", "node", "numa", "pcie" or "nvlink"
[[nodiscard]] Result<Closeness> parse_closeness(std::string_view text);
// Says something about the GPUs of one node.
[[nodiscard]] inline bool inside_a_node(Closeness closeness) {
  return closeness >= Closeness::kNuma;
}

struct Near {
  Closeness closeness = Closeness::kAnywhere;
  bool required = false;  // otherwise it is tried first
  friend bool operator==(const Near&, const Near&) = default;
};

// Replicas that should not fall together: at most `most` members in one domain.
struct Spread {
  Closeness domain = Closeness::kNode;  // node, rack or zone
  std::uint32_t most = 1;
  friend bool operator==(const Spread&, const Spread&) = default;
};

struct Where {
  std::vector<std::string> nodes = {};                  // only these; empty: all
  std::vector<std::string> nodes_denied = {};           // never these
  std::map<std::string, std::string> node_labels = {};  // the node has all of them
  std::vector<std::string> tolerations = {};            // taints of nodes that do not matter
  Near gpus_near = {};     // the GPUs of one member to each other: nvlink, pcie or numa
  Near members_near = {};  // the members to each other: node, rack or zone
  std::optional<Spread> spread = std::nullopt;
  friend bool operator==(const Where&, const Where&) = default;
};

// One sentence about the first thing that is wrong, beginning with the field ("where.nodes[0]:
// ..."): names that no node can have, too many of them, a node that is both wanted and denied, a
// closeness that makes no sense where it stands.
[[nodiscard]] Status check(const Where& where);

}  // namespace divvy::model
