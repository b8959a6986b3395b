#include "kube/gang_reference.h"

#include <array>
#include <boost/json.hpp>

#include "base/text.h"
#include "kube/json_view.h"
#include "kube/whole_number.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestName = 253;

// As names of objects are: safe in a path. Labels and annotations are written by anybody.
bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kLongestName || text == "." || text == "..") return false;
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string_view::npos;
}

std::string_view label(const json::object& pod, std::string_view name) {
  return text_at(pod, {"metadata", "labels", name});
}

std::string_view annotation(const json::object& pod, std::string_view name) {
  return text_at(pod, {"metadata", "annotations", name});
}

// Some write it as the one, some as the other.
std::string_view label_or_annotation(const json::object& pod, std::string_view name) {
  const std::string_view text = label(pod, name);
  return text.empty() ? annotation(pod, name) : text;
}

std::uint32_t number(std::string_view text) {
  return parse_whole_number<std::uint32_t>(text).value_or(0);
}

std::string space_of(const json::object& pod) {
  return std::string(text_at(pod, {"metadata", "namespace"}));
}

std::string path_of(std::string_view group_version, const std::string& space,
                    std::string_view plural, std::string_view name) {
  return fmt::format("/apis/{}/namespaces/{}/{}/{}", group_version, space, plural, name);
}

// Whoever makes a pod anew if it is lost.
struct Owner {
  std::string_view group_version;
  std::string_view kind;
  std::string_view name;
};
std::optional<Owner> owner_of(const json::object& pod) {
  for (const json::value& one : array_at(pod, {"metadata", "ownerReferences"})) {
    const json::object* const owner = one.if_object();
    if (owner == nullptr || !true_at(*owner, {"controller"})) continue;
    const Owner found{text_at(*owner, {"apiVersion"}), text_at(*owner, {"kind"}),
                      text_at(*owner, {"name"})};
    if (is_name(found.name)) return found;
  }
  return std::nullopt;
}

struct KubeflowKind {
  std::string_view kind;
  std::string_view plural;
};
constexpr std::array<KubeflowKind, 6> kKubeflowKinds{{{"PyTorchJob", "pytorchjobs"},
                                                      {"TFJob", "tfjobs"},
                                                      {"MPIJob", "mpijobs"},
                                                      {"XGBoostJob", "xgboostjobs"},
                                                      {"PaddleJob", "paddlejobs"},
                                                      {"JAXJob", "jaxjobs"}}};

// The versions of Kubeflow's API that there are; a pod's owner names one.
bool is_kubeflow(std::string_view group_version) {
  return group_version == "kubeflow.org/v1" || group_version == "kubeflow.org/v2beta1";
}

std::optional<GangReference> in_pod_group(const json::object& pod) {
  GangReference gang{.what = "PodGroup"};
  const std::string_view in_tree = text_at(pod, {"spec", "schedulingGroup", "podGroupName"});
  const std::string_view workload = text_at(pod, {"spec", "workloadRef", "name"});
  const std::string_view coscheduling = label(pod, "scheduling.x-k8s.io/pod-group");
  if (is_name(in_tree)) {
    gang.kind = GangKind::kPodGroup;
    gang.name = in_tree;
    gang.path = path_of("scheduling.k8s.io/v1alpha2", space_of(pod), "podgroups", in_tree);
  } else if (is_name(workload)) {
    gang.kind = GangKind::kWorkload;
    gang.what = "Workload";
    gang.name = workload;
    gang.part = text_at(pod, {"spec", "workloadRef", "podGroup"});
    // Each replica of a group is a gang of its own.
    gang.round =
        gang.part + "/" + std::string(text_at(pod, {"spec", "workloadRef", "podGroupReplicaKey"}));
    gang.path = path_of("scheduling.k8s.io/v1alpha1", space_of(pod), "workloads", workload);
  } else if (is_name(coscheduling)) {
    gang.kind = GangKind::kCoscheduling;
    gang.name = coscheduling;
    gang.path = path_of("scheduling.x-k8s.io/v1alpha1", space_of(pod), "podgroups", coscheduling);
  } else {
    return std::nullopt;
  }
  return gang;
}

std::optional<GangReference> in_volcano_group(const json::object& pod) {
  std::string_view name = annotation(pod, "scheduling.k8s.io/group-name");
  if (name.empty()) name = annotation(pod, "scheduling.volcano.sh/group-name");
  if (!is_name(name)) return std::nullopt;
  return GangReference{
      .kind = GangKind::kVolcano,
      .what = "PodGroup",
      .name = std::string(name),
      .path = path_of("scheduling.volcano.sh/v1beta1", space_of(pod), "podgroups", name)};
}

std::optional<GangReference> in_kai_group(const json::object& pod) {
  const std::string_view name = annotation(pod, "pod-group-name");
  if (!is_name(name)) return std::nullopt;
  return GangReference{
      .kind = GangKind::kKai,
      .what = "PodGroup",
      .name = std::string(name),
      .path = path_of("scheduling.run.ai/v2alpha2", space_of(pod), "podgroups", name)};
}

std::optional<GangReference> in_job_set(const json::object& pod) {
  const std::string_view name = label(pod, "jobset.sigs.k8s.io/jobset-name");
  if (!is_name(name)) return std::nullopt;
  GangReference gang{.kind = GangKind::kJobSet, .what = "JobSet", .name = std::string(name)};
  // After a failure all of its jobs are made anew.
  gang.round = label_or_annotation(pod, "jobset.sigs.k8s.io/restart-attempt");
  gang.part = label(pod, "jobset.sigs.k8s.io/replicatedjob-name");
  gang.path = path_of("jobset.x-k8s.io/v1alpha2", space_of(pod), "jobsets", name);
  gang.rank = {number(label_or_annotation(pod, "jobset.sigs.k8s.io/job-global-index")),
               number(label_or_annotation(pod, "batch.kubernetes.io/job-completion-index"))};
  return gang;
}

std::optional<GangReference> in_leader_worker_set(const json::object& pod) {
  const std::string_view name = label(pod, "leaderworkerset.sigs.k8s.io/name");
  if (!is_name(name)) return std::nullopt;
  GangReference gang{
      .kind = GangKind::kLeaderWorkerSet, .what = "LeaderWorkerSet", .name = std::string(name)};
  // Each group of a leader and its workers is a gang of its own.
  gang.round = label(pod, "leaderworkerset.sigs.k8s.io/group-index");
  const std::string_view index = label(pod, "leaderworkerset.sigs.k8s.io/worker-index");
  gang.part = index == "0" || index.empty() ? "leader" : "worker";
  gang.rank.index = number(index);
  gang.path = path_of("leaderworkerset.x-k8s.io/v1", space_of(pod), "leaderworkersets", name);
  return gang;
}

std::optional<GangReference> of_kubeflow(const json::object& pod, const Owner& owner) {
  if (!is_kubeflow(owner.group_version)) return std::nullopt;
  for (const KubeflowKind& kind : kKubeflowKinds) {
    if (kind.kind != owner.kind) continue;
    const std::string role = to_lower(label(pod, "training.kubeflow.org/replica-type"));
    // It waits for its workers itself.
    if (kind.kind == "MPIJob" && role == "launcher") return std::nullopt;
    GangReference gang{.kind = GangKind::kKubeflow,
                       .what = std::string(owner.kind),
                       .name = std::string(owner.name)};
    gang.path = path_of(owner.group_version, space_of(pod), kind.plural, owner.name);
    const bool leads = role == "master" || role == "chief";
    gang.rank = {leads ? 0U : 1U, number(label(pod, "training.kubeflow.org/replica-index"))};
    return gang;
  }
  return std::nullopt;
}

std::optional<GangReference> of_ray_cluster(const json::object& pod, const Owner& owner) {
  if (owner.kind != "RayCluster" || owner.group_version != "ray.io/v1") return std::nullopt;
  GangReference gang{
      .kind = GangKind::kRayCluster, .what = "RayCluster", .name = std::string(owner.name)};
  gang.path = path_of(owner.group_version, space_of(pod), "rayclusters", owner.name);
  gang.rank.group = label(pod, "ray.io/node-type") == "head" ? 0U : 1U;
  return gang;
}

// Whether it is a gang says the Job itself: only one of as many pods at once as there are at all.
std::optional<GangReference> of_job(const json::object& pod, const Owner& owner) {
  const std::string_view index =
      label_or_annotation(pod, "batch.kubernetes.io/job-completion-index");
  if (owner.kind != "Job" || owner.group_version != "batch/v1" || index.empty()) {
    return std::nullopt;
  }
  GangReference gang{.kind = GangKind::kJob, .what = "Job", .name = std::string(owner.name)};
  gang.path = path_of(owner.group_version, space_of(pod), "jobs", owner.name);
  gang.rank.index = number(index);
  return gang;
}

// As the pod's dialect read it.
std::optional<GangReference> named(const json::object& pod, const PodRequest& request) {
  const PodGang& gang = *request.gang;
  if (gang.size != 0 || gang.least != 0) {
    return GangReference{.kind = GangKind::kNamed,
                         .what = "gang",
                         .name = gang.name,
                         .size = gang.size,
                         .least = gang.least};
  }
  if (request.dialect == "kai") return in_kai_group(pod);
  return in_volcano_group(pod);
}

}  // namespace

std::string GangReference::key() const {
  return fmt::format("{}/{}/{}", static_cast<int>(kind), name, round);
}

std::optional<GangReference> read_gang(const json::object& pod, const PodRequest& request) {
  std::optional<GangReference> gang;
  if (request.gang) gang = named(pod, request);
  if (!gang && !request.gang) gang = in_pod_group(pod);
  if (!gang && !request.gang) gang = in_volcano_group(pod);
  if (!gang && !request.gang) gang = in_job_set(pod);
  if (!gang && !request.gang) gang = in_leader_worker_set(pod);
  if (const auto owner = owner_of(pod); owner && !gang && !request.gang) {
    gang = of_kubeflow(pod, *owner);
    if (!gang) gang = of_ray_cluster(pod, *owner);
    if (!gang) gang = of_job(pod, *owner);
  }
  if (!gang || (gang->path.empty() && std::max(gang->size, gang->least) <= 1)) return std::nullopt;
  // Where the name says nothing of the order: the ordinal of a StatefulSet's pod.
  if (gang->rank == GangRank{}) {
    gang->rank.index = number(label_or_annotation(pod, "apps.kubernetes.io/pod-index"));
  }
  return gang;
}

std::optional<GangReference> read_named_group(const json::object& pod) {
  auto gang = in_pod_group(pod);
  if (!gang) gang = in_volcano_group(pod);
  if (!gang) gang = in_kai_group(pod);
  return gang;
}

}  // namespace divvy::kube
