// Policies as objects of Kubernetes (`policies.divvy.dev`, docs/kubernetes-policies.md): how the
// pods of some namespaces are read, and what holds for pods that say nothing themselves. Pure; any
// document is safe to read.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/cluster_objects.h"
#include "kube/pod_request.h"

namespace divvy::kube {

struct PolicyObject {
  ObjectFacts object;
  // Which namespaces: by their names, or all that have these labels. Neither: none.
  std::vector<std::string> namespaces = {};
  std::map<std::string, std::string> labels = {};
  // What it says; nothing: as the controller is set up.
  std::optional<NvidiaGpus> nvidia_gpus = {};
  std::optional<std::uint32_t> replicas_per_gpu = {};
  std::optional<std::vector<std::string>> left_alone = {};
  std::optional<bool> movable = {};  // whether pods that do not say it may be moved
  PodDefaults defaults = {};
  std::string problem = {};  // what is wrong with it; empty: nothing
  std::uint64_t generation = 0;
  boost::json::object status = {};  // as it is now

  // 2: it names the namespace, 1: by its labels, 0: it is not about it.
  [[nodiscard]] int weight_for(const boost::json::object& name_space) const;
  [[nodiscard]] DialectPolicy over(DialectPolicy usual) const;
};
[[nodiscard]] Result<PolicyObject> read_policy(const boost::json::object& policy);

using PolicyObjects = std::map<std::string, PolicyObject>;  // by name

// The one that holds for a namespace: one that names it comes before one that finds it by labels,
// and of equal ones the first by name. One with a problem holds for nobody. Null: none.
[[nodiscard]] const PolicyObject* find_policy(const PolicyObjects& policies,
                                              const boost::json::object& name_space);

// For its status. `holds_for` is how many namespaces it holds for, `shadowed` those that it is
// about and another one holds for.
[[nodiscard]] boost::json::object policy_status(const PolicyObject& policy, std::size_t holds_for,
                                                const std::vector<std::string>& shadowed,
                                                WallTime now);

}  // namespace divvy::kube
