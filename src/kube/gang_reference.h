// Which pods belong together: start together or not at all. Read from a pod's own annotations and
// labels, and from who made it: PodGroups (Volcano's, KAI's, of scheduler-plugins and of Kubernetes
// itself), JobSet and TrainJob, LeaderWorkerSet, Kubeflow's jobs, RayCluster, Indexed Job. How many
// they are says the pod, or an object of its namespace (gang_size.h). Pure; any document is safe to
// read.
#pragma once

#include <boost/json/object.hpp>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kube/pod_request.h"

namespace divvy::kube {

enum class GangKind {
  kNamed,         // the pods say it all: divvy.dev/gang, sharedgpu/group_name
  kVolcano,       // scheduling.volcano.sh PodGroup
  kKai,           // scheduling.run.ai PodGroup
  kCoscheduling,  // scheduling.x-k8s.io PodGroup, of scheduler-plugins
  kPodGroup,      // scheduling.k8s.io PodGroup
  kWorkload,      // scheduling.k8s.io Workload, which was before that
  kJobSet,        // also of a TrainJob
  kLeaderWorkerSet,
  kKubeflow,  // PyTorchJob, TFJob, MPIJob, ...
  kRayCluster,
  kJob,
};

// By which the members of a gang are told apart: the leader comes first.
struct GangRank {
  std::uint32_t group = 0;
  std::uint32_t index = 0;
  friend auto operator<=>(const GangRank&, const GangRank&) = default;
};

struct GangReference {
  GangKind kind = GangKind::kNamed;
  std::string what = {};   // "JobSet", for people
  std::string name = {};   // of the group, or of the object that made the pods
  std::string round = {};  // pods that were made later, all together, are another gang
  std::string path = {};   // of the object that says how many there are; empty: the pods do
  std::string part = {};   // of that object, of which this pod is
  std::uint32_t size = 0;  // where the pods say it: so many there are
  std::uint32_t least = 0;
  GangRank rank = {};

  // Pods of one namespace with the same are one gang.
  [[nodiscard]] std::string key() const;
  // "JobSet llm"
  [[nodiscard]] std::string describe() const { return what + " " + name; }
};

// Nothing: the pod stands alone. `request` is what it asks for.
[[nodiscard]] std::optional<GangReference> read_gang(const boost::json::object& pod,
                                                     const PodRequest& request);

// The group that a pod names itself which asks nothing of Divvy. Such pods are among those that a
// PodGroup counts.
[[nodiscard]] std::optional<GangReference> read_named_group(const boost::json::object& pod);

}  // namespace divvy::kube
