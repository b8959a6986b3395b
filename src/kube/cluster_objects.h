// What the controller keeps of the objects that it watches: pods that ask for slices, their claims,
// GPU nodes, nodes and namespaces. Read from their documents. Pure; any document is safe to read.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/orders.h"
#include "base/clock.h"
#include "base/result.h"
#include "kube/allocation.h"
#include "kube/gang_reference.h"
#include "kube/pod_request.h"

namespace divvy::kube {

// Of every object.
struct ObjectFacts {
  std::string space;  // its namespace; empty for objects of the cluster
  std::string name;
  std::string uid;
  std::uint64_t version = 0;  // within one kind the higher one is the newer one
  WallTime created;

  [[nodiscard]] std::string key() const { return space + "/" + name; }
};
// Refused: no name, no uid or no resource version, so it is no object of an API server.
[[nodiscard]] Result<ObjectFacts> read_object(const boost::json::object& object);

struct Toleration {
  std::string key;  // empty: all
  std::string value;
  std::string effect;   // empty: all
  bool exists = false;  // whatever its value is
  friend bool operator==(const Toleration&, const Toleration&) = default;
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;
  friend auto operator<=>(const Taint&, const Taint&) = default;
};
[[nodiscard]] bool tolerates(const Toleration& toleration, const Taint& taint);
// "key=value:effect"
[[nodiscard]] std::string to_string(const Taint& taint);

struct PodFacts {
  ObjectFacts object;
  bool deleting = false;
  bool ended = false;                    // its phase is Succeeded or Failed
  bool succeeded = false;                // the former
  bool is_owned = false;                 // somebody makes another one when it goes
  std::string owner = {};                // uid of who does
  std::string owner_kind = {};           // "ReplicaSet"
  std::string node = {};                 // to which it is bound; empty: it is not
  std::optional<std::size_t> gate = {};  // where ours stands among its scheduling gates
  bool gated_by_others = false;
  std::string claim = {};  // the name of its resource claim of ours; empty: it has none
  // Neither gate nor annotation: it refers to claims that somebody wrote or that are made from a
  // template, and which may be for our device class. Their names; `claim` and `request` are not
  // known then.
  std::vector<std::string> refers_to = {};
  // It has no claim: what it was given stands in the pod itself.
  bool by_slots = false;
  std::optional<Allocation> allocation = {};  // of one by slots, as soon as our gate is gone
  boost::json::object affinity = {};          // of one by slots: spec.affinity
  std::map<std::string, std::string> node_selector = {};
  std::vector<Toleration> tolerations = {};
  Result<PodRequest> request;
  std::optional<GangReference> gang = {};      // of which it is
  bool says_preemptible = false;               // in an annotation of ours
  std::optional<bool> says_movable = {};       // likewise
  std::chrono::seconds grace{30};              // that it has to end
  std::optional<WallTime> unschedulable = {};  // since when kube-scheduler finds no node for it
  // Its condition of ours.
  std::optional<std::size_t> condition = {};  // where it stands among the others
  std::string condition_text = {};            // its reason, and after a space its message
  bool has_conditions = false;
};
// Nothing: no pod of ours, and no claims.
[[nodiscard]] Result<std::optional<PodFacts>> read_pod(const boost::json::object& pod);

struct ClaimFacts {
  ObjectFacts object;
  std::string owner = {};     // uid of the pod that controls it; empty: none does
  bool by_hand = false;       // not made by us: it says itself what it is for
  bool is_protected = false;  // it has the finalizer of allocated claims
  bool deleting = false;
  // kube-scheduler has committed itself: whoever it is for runs there, if it need not wait for
  // `go`.
  bool reserved = false;
  bool go = false;  // of a gang's: its pod may be bound
  bool no = false;  // it may not, and kube-scheduler gives the claim back
  bool allocated = false;
  std::optional<Allocation> allocation = {};  // nothing with `allocated`: of others, or unreadable
  boost::json::object document = {};          // for writing it
};
// Nothing: no request of it is for our device class.
[[nodiscard]] Result<std::optional<ClaimFacts>> read_claim(const boost::json::object& claim);

// What a node's ledger holds for a claim.
struct HeldClaim {
  std::string claim_uid;
  std::string space;
  std::string claim = {};
  std::vector<model::Slice> slices;
  friend bool operator==(const HeldClaim&, const HeldClaim&) = default;
};

struct GpuNodeFacts {
  ObjectFacts object;
  std::string heartbeat = {};  // as the agent wrote it
  std::optional<WallTime> heard = {};
  agent::MachineState state = {};
  std::vector<HeldClaim> held = {};
};
[[nodiscard]] Result<GpuNodeFacts> read_gpu_node(const boost::json::object& node);

struct NodeFacts {
  ObjectFacts object;
  bool unschedulable = false;
  bool ready = false;
  std::map<std::string, std::string> labels = {};
  std::vector<Taint> taints =
      {};  // that keep pods away, without those that say what is here already
};
[[nodiscard]] Result<NodeFacts> read_node(const boost::json::object& node);

struct NamespaceFacts {
  ObjectFacts object;
  std::string queue;  // of its label; empty: none
  boost::json::object metadata = {};
};
[[nodiscard]] Result<NamespaceFacts> read_namespace(const boost::json::object& space);

}  // namespace divvy::kube
