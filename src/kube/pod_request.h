// What a pod asks of Divvy, in whichever dialect its author knows: Divvy's own annotations and
// resources, NVIDIA's, HAMi's, KAI's and Run:ai's, Volcano's, Aliyun's, Tencent's and KubeShare's.
// docs/kubernetes-dialects.md has the table. Pure, callable from any thread; any document is safe
// to pass.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::kube {

// What `nvidia.com/gpu`, which other device plugins offer too, means in a namespace.
enum class NvidiaGpus {
  kLeave,     // Somebody else's: the pod is left as it is.
  kWhole,     // So many whole GPUs from Divvy.
  kReplicas,  // So many of the replicas that each GPU counts for (`replicas_per_gpu`).
};
[[nodiscard]] std::string_view to_string(NvidiaGpus meaning);
// "leave", "whole" or "replicas"
[[nodiscard]] Result<NvidiaGpus> parse_nvidia_gpus(std::string_view text);

// How a pod comes to its slices (docs/decisions/0023-slots-as-the-second-way.md).
enum class Way {
  kClaims,  // They stand in its resource claim.
  kSlots,   // They stand in the pod itself, and each of its containers has a slot of its node.
};
[[nodiscard]] std::string_view to_string(Way way);
// "claims" or "slots"
[[nodiscard]] Result<Way> parse_way(std::string_view text);

// Of all dialects: "divvy", "hami", ...
[[nodiscard]] std::vector<std::string_view> dialect_names();

// What holds for pods of a namespace that say nothing themselves, as its Policy has it.
struct PodDefaults {
  std::vector<std::string> models = {};
  std::vector<std::string> models_denied = {};  // whatever a pod says
  std::optional<model::TopologyPreference> topology = std::nullopt;
  std::optional<model::GpuMode> mode = std::nullopt;  // of parts of one GPU
  std::optional<model::JobClass> job_class = std::nullopt;
  std::optional<bool> cap = std::nullopt;
  friend bool operator==(const PodDefaults&, const PodDefaults&) = default;
};

// How the pods of one namespace are read.
struct DialectPolicy {
  NvidiaGpus nvidia_gpus = NvidiaGpus::kWhole;
  // What one of `nvidia.com/gpu.shared` is a part of, and of `nvidia.com/gpu` under kReplicas.
  std::uint32_t replicas_per_gpu = 0;
  // Dialects by their names ("hami") whose pods belong to somebody else and are left as they are.
  std::vector<std::string> left_alone = {};
  std::string queue = "default";  // for pods that name none
  PodDefaults defaults = {};
  friend bool operator==(const DialectPolicy&, const DialectPolicy&) = default;
};

// Pods that start together or not at all, where the pods themselves say so. Groups that are
// objects of their own (PodGroup, JobSet) are found by the controller.
struct PodGang {
  std::string name;
  std::uint32_t size = 0;   // pods; 0: the pod does not say
  std::uint32_t least = 0;  // of them start together; 0: all
  friend bool operator==(const PodGang&, const PodGang&) = default;
};

struct PodRequest {
  explicit PodRequest(model::JobSpec spec_) : spec(std::move(spec_)) {}

  std::string dialect;  // "divvy", "nvidia", "nvidia-replicas", "hami", "kai", "volcano", ...
  // Each gets a slice of its own, in the pod's order: the members of the job.
  std::vector<std::string> containers;
  // Init containers that ask too. They have ended when the others start, so they use the slice of
  // the first container.
  std::vector<std::string> init_containers;
  // For one container, with as many members as there are `containers`; its holder is `slice`.
  model::JobSpec spec;
  std::optional<PodGang> gang;
  Way way = Way::kClaims;  // the webhook's word, whatever the pod says
  // Names to take out of limits and requests of every container: no node offers them.
  std::vector<std::string> resources;
  // Of the system that the dialect belongs to, which is not here to bind the pod; empty: none.
  std::string foreign_scheduler;
  std::vector<std::string> warnings;  // what is meant a little differently here; for the author
  friend bool operator==(const PodRequest&, const PodRequest&) = default;
};

// Nothing: the pod asks for no GPU of Divvy's. What cannot be meant is an error that begins with
// the field (`spec.containers[0].resources.limits["nvidia.com/gpucores"]: ...`) and says what to
// write instead. The resources and annotations are read as the author wrote them: whether the
// webhook was here before (the annotation `divvy.dev/request`) is for admission.h to know.
[[nodiscard]] Result<std::optional<PodRequest>> read_pod_request(const boost::json::object& pod,
                                                                 const DialectPolicy& policy);

}  // namespace divvy::kube
