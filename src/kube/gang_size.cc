#include "kube/gang_size.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "kube/json_view.h"
#include "kube/time_stamp.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kMost = model::Request::kMaxGangSize;

// Many of anybody's numbers, added and multiplied: never more than a gang can have.
std::uint32_t capped(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min(number, kMost));
}

std::uint32_t count_at(const json::object& object, std::initializer_list<std::string_view> path,
                       std::uint32_t usual) {
  const auto number = number_at(object, path);
  return number ? capped(*number) : usual;
}

std::uint32_t times(std::uint32_t a, std::uint32_t b) { return capped(std::uint64_t{a} * b); }

// One that the webhook would refuse is counted: then the gang says who is missing.
bool asks(const json::object& pod_template, const DialectPolicy& policy) {
  const auto request = read_pod_request(pod_template, policy);
  return !request || request->has_value();
}

std::uint32_t pods_at_once(const json::object& job_spec) {
  const std::uint32_t parallelism = count_at(job_spec, {"parallelism"}, 1);
  return std::min(parallelism, count_at(job_spec, {"completions"}, parallelism));
}

// Of one with more completions than it runs at one time each pod does work of its own.
GangSize of_job(const json::object& job) {
  const json::object& spec = object_at(job, {"spec"});
  const auto completions = number_at(spec, {"completions"});
  const bool all_at_once = text_at(spec, {"completionMode"}) == "Indexed" && completions &&
                           *completions == count_at(spec, {"parallelism"}, 1);
  return {.pods = all_at_once ? pods_at_once(spec) : 1};
}

GangSize of_job_set(const json::object& set, const DialectPolicy& policy) {
  GangSize size;
  size.by_parts = text_at(set, {"spec", "startupPolicy", "startupPolicyOrder"}) == "InOrder";
  std::uint64_t all = 0;
  for (const json::value& one : array_at(set, {"spec", "replicatedJobs"})) {
    const json::object* const jobs = one.if_object();
    if (jobs == nullptr) continue;
    if (!array_at(*jobs, {"dependsOn"}).empty()) size.by_parts = true;
    const json::object& spec = object_at(*jobs, {"template", "spec"});
    if (!asks(object_at(spec, {"template"}), policy)) continue;
    const std::uint32_t pods = times(count_at(*jobs, {"replicas"}, 1), pods_at_once(spec));
    size.parts[std::string(text_at(*jobs, {"name"}))] = pods;
    all += pods;
  }
  size.pods = capped(all);
  return size;
}

GangSize of_leader_worker_set(const json::object& set, const DialectPolicy& policy) {
  const json::object& templates = object_at(set, {"spec", "leaderWorkerTemplate"});
  const json::object& worker = object_at(templates, {"workerTemplate"});
  const json::object& named = object_at(templates, {"leaderTemplate"});
  const json::object& leader = named.empty() ? worker : named;
  const std::uint32_t all = std::max(count_at(templates, {"size"}, 1), 1U);
  GangSize size;
  size.parts["leader"] = asks(leader, policy) ? 1 : 0;
  size.parts["worker"] = asks(worker, policy) ? all - 1 : 0;
  size.pods = size.parts["leader"] + size.parts["worker"];
  // Workers are made when the leader is ready, or when it has its node.
  constexpr std::string_view kExclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology";
  size.by_parts = text_at(set, {"spec", "startupPolicy"}) == "LeaderReady" ||
                  !text_at(set, {"metadata", "annotations", kExclusive}).empty();
  return size;
}

constexpr std::array<std::string_view, 6> kReplicaSpecs{"pytorchReplicaSpecs", "tfReplicaSpecs",
                                                        "mpiReplicaSpecs",     "xgbReplicaSpecs",
                                                        "paddleReplicaSpecs",  "jaxReplicaSpecs"};

GangSize of_kubeflow(const json::object& job, const DialectPolicy& policy) {
  GangSize size;
  std::uint64_t all = 0;
  for (const std::string_view specs : kReplicaSpecs) {
    for (const auto& [role, value] : object_at(job, {"spec", specs})) {
      const json::object* const replicas = value.if_object();
      if (replicas == nullptr || std::string_view(role) == "Launcher") continue;
      if (asks(object_at(*replicas, {"template"}), policy)) {
        all += count_at(*replicas, {"replicas"}, 1);
      }
    }
  }
  size.pods = capped(all);
  std::uint32_t least = count_at(job, {"spec", "elasticPolicy", "minReplicas"}, 0);
  least = count_at(job, {"spec", "runPolicy", "schedulingPolicy", "minAvailable"}, least);
  size.least = std::min(least, size.pods);
  return size;
}

GangSize of_ray_cluster(const json::object& cluster, const DialectPolicy& policy) {
  std::uint64_t all = 0;
  if (asks(object_at(cluster, {"spec", "headGroupSpec", "template"}), policy)) ++all;
  for (const json::value& one : array_at(cluster, {"spec", "workerGroupSpecs"})) {
    const json::object* const group = one.if_object();
    if (group == nullptr || true_at(*group, {"suspend"})) continue;
    if (!asks(object_at(*group, {"template"}), policy)) continue;
    const std::uint32_t least = count_at(*group, {"minReplicas"}, 0);
    const std::uint32_t replicas = std::max(least, count_at(*group, {"replicas"}, least));
    all += times(replicas, count_at(*group, {"numOfHosts"}, 1));
  }
  return {.pods = capped(all)};
}

// A group counts the pods that it has to have, and more may come.
GangSize of_group(const json::object& group) {
  return {.least = count_at(group, {"spec", "minMember"}, 1), .counts_others = true};
}

GangSize of_pod_group(const json::object& group) {
  GangSize size{.least = count_at(group, {"spec", "schedulingPolicy", "gang", "minCount"}, 1),
                .counts_others = true};
  for (const json::value& one : array_at(group, {"spec", "schedulingConstraints", "topology"})) {
    if (one.is_object()) size.topology = text_at(one.get_object(), {"key"});
  }
  return size;
}

GangSize of_workload(const json::object& workload, const std::string& part) {
  for (const json::value& one : array_at(workload, {"spec", "podGroups"})) {
    if (!one.is_object() || text_at(one.get_object(), {"name"}) != part) continue;
    return {.least = count_at(one.get_object(), {"policy", "gang", "minCount"}, 1),
            .counts_others = true};
  }
  return {.least = 1};
}

}  // namespace

Result<GangSize> read_gang_size(const GangReference& gang, const json::object& object,
                                const DialectPolicy& policy) {
  if (object_at(object, {"spec"}).empty()) {
    return err(ErrorCode::kDataLoss, "{} does not say of how many pods it is", gang.describe());
  }
  GangSize size;
  switch (gang.kind) {
    case GangKind::kNamed:
      return err(ErrorCode::kInvalidArgument, "{} has no object", gang.describe());
    case GangKind::kVolcano:
    case GangKind::kKai:
    case GangKind::kCoscheduling:
      size = of_group(object);
      break;
    case GangKind::kPodGroup:
      size = of_pod_group(object);
      break;
    case GangKind::kWorkload:
      size = of_workload(object, gang.part);
      break;
    case GangKind::kJobSet:
      size = of_job_set(object, policy);
      break;
    case GangKind::kLeaderWorkerSet:
      size = of_leader_worker_set(object, policy);
      break;
    case GangKind::kKubeflow:
      size = of_kubeflow(object, policy);
      break;
    case GangKind::kRayCluster:
      size = of_ray_cluster(object, policy);
      break;
    case GangKind::kJob:
      size = of_job(object);
      break;
  }
  size.created =
      read_time_stamp(text_at(object, {"metadata", "creationTimestamp"})).value_or(WallTime());
  return size;
}

}  // namespace divvy::kube
