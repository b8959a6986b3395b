// How much is missing on a node for one more member, and on which nodes the least would have to be
// freed so that a whole request fits. explain.h words it for people; reserve.h holds such places
// until they are free. Pure: looks at the cluster and changes copies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "place/cluster.h"
#include "place/eligible.h"
#include "place/node_trial.h"
#include "place/request.h"

namespace divvy::place {

struct DeviceShortfall {
  std::uint8_t device = 0;
  bool whole = false;        // everybody who is on it has to leave
  std::uint32_t share = 0;   // thousandths to be freed
  std::uint64_t memory = 0;  // bytes to be freed
  friend bool operator==(const DeviceShortfall&, const DeviceShortfall&) = default;
};

struct Shortfall {
  NodeId node;
  std::vector<DeviceShortfall> devices;
  std::int64_t cpu_milli = 0;
  std::int64_t ram = 0;
  bool member = false;  // the node has as many members as it takes
  // How much that is, to compare: thousandths of a GPU, and of the node's CPUs and RAM.
  std::uint64_t cost = 0;

  [[nodiscard]] bool nothing() const {
    return devices.empty() && cpu_milli == 0 && ram == 0 && !member;
  }
};

// The least that has to be freed there; nothing where that cannot help: the node is closed, too
// small, or too few of its GPUs are healthy or close together.
[[nodiscard]] std::optional<Shortfall> shortfall(const NodeTrial& node, const Ask& ask);
// The node afterwards.
void free_up(NodeTrial& node, const Shortfall& shortfall);
// The cluster afterwards: whoever holds it now has that much less. Between mark() and rollback().
void free_up(Cluster& cluster, const Shortfall& shortfall);

// Nodes that a request may use, by the rack, zone or node in which its members have to be together.
struct Domain {
  std::optional<std::uint32_t> number;  // nothing: they may be anywhere
  std::vector<NodeId> nodes;
};
[[nodiscard]] std::vector<Domain> domains_of(const Cluster& cluster, const Request& request);

// Where the members could be if a little were freed: first what fits as it is.
struct Room {
  std::uint32_t fit_now = 0;            // of `spots`
  std::vector<Spot> spots;              // as many as were wanted
  std::vector<Shortfall> missing;       // one for each node where something is missing, by node
  std::uint64_t cost = 0;               // the sum of it
  std::optional<std::uint32_t> domain;  // where they are near each other
};
// Room for `members`, in the domain where the least is missing; nothing if it would not be enough
// that all work leaves. What `kept` has is not to be freed.
[[nodiscard]] std::optional<Room> find_room(const Cluster& cluster, const Request& request,
                                            std::uint32_t members, std::span<const Spot> kept = {});

// How many members fit as things are, up to `most`: in the best domain where they are near.
[[nodiscard]] std::uint32_t members_that_fit(const Cluster& cluster, const Request& request,
                                             std::uint32_t most);
// The same with nobody there, every node open and every GPU healthy.
[[nodiscard]] std::uint32_t members_at_best(const Cluster& cluster, const Request& request,
                                            std::uint32_t most);

}  // namespace divvy::place
