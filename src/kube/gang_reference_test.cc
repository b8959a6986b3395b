#include "kube/gang_reference.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kube/gang_size.h"
#include "kube/json_view.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

PodRequest asks(std::optional<PodGang> gang = std::nullopt, const std::string& dialect = "divvy") {
  PodRequest request(model::JobSpec(*model::Request::parse("1")));
  request.dialect = dialect;
  request.gang = std::move(gang);
  return request;
}

// With this metadata, in namespace team-a.
json::object pod(const char* metadata, const char* spec = "{}") {
  json::object document{{"metadata", json::parse(metadata)}, {"spec", json::parse(spec)}};
  document["metadata"].as_object()["namespace"] = "team-a";
  return document;
}

GangReference gang(const json::object& document, const PodRequest& request = asks()) {
  auto found = read_gang(document, request);
  EXPECT_TRUE(found.has_value());
  return found.value_or(GangReference{});
}

std::string owned_by(const char* api_version, const char* kind, const char* name,
                     const char* more = "{}") {
  json::object metadata = json::parse(more).as_object();
  metadata["ownerReferences"] = json::array{json::object{
      {"apiVersion", api_version}, {"kind", kind}, {"name", name}, {"controller", true}}};
  return json::serialize(metadata);
}

TEST(GangReference, IsNothingForAPodThatStandsAlone) {
  EXPECT_FALSE(read_gang(pod(R"({"name": "a"})"), asks()));
  EXPECT_FALSE(read_gang(pod(owned_by("apps/v1", "ReplicaSet", "web").c_str()), asks()));
  EXPECT_FALSE(read_gang(pod(owned_by("batch/v1", "Job", "many").c_str()), asks()));
}

TEST(GangReference, IsWhatThePodSaysItself) {
  const auto named = gang(pod("{}"), asks(PodGang{"llm", 4, 0}));
  EXPECT_EQ(named.kind, GangKind::kNamed);
  EXPECT_EQ(named.size, 4U);
  EXPECT_TRUE(named.path.empty());
  EXPECT_EQ(named.describe(), "gang llm");
}

TEST(GangReference, IsNothingWhereThePodSaysSo) {
  const std::string job_set = R"({"labels": {"jobset.sigs.k8s.io/jobset-name": "llm"}})";
  EXPECT_TRUE(read_gang(pod(job_set.c_str()), asks()));
  EXPECT_FALSE(read_gang(pod(job_set.c_str()), asks(PodGang{"none", 1, 0})));
}

TEST(GangReference, FindsPodGroups) {
  const auto volcano = gang(pod(R"({"annotations": {"scheduling.k8s.io/group-name": "llm"}})"));
  EXPECT_EQ(volcano.path, "/apis/scheduling.volcano.sh/v1beta1/namespaces/team-a/podgroups/llm");
  const auto by_dialect =
      gang(pod(R"({"annotations": {"scheduling.volcano.sh/group-name": "llm"}})"),
           asks(PodGang{"llm", 0, 0}, "volcano"));
  EXPECT_EQ(by_dialect.path, volcano.path);
  const auto kai =
      gang(pod(R"({"annotations": {"pod-group-name": "llm"}})"), asks(PodGang{"llm", 0, 0}, "kai"));
  EXPECT_EQ(kai.path, "/apis/scheduling.run.ai/v2alpha2/namespaces/team-a/podgroups/llm");
  const auto plugins = gang(pod(R"({"labels": {"scheduling.x-k8s.io/pod-group": "llm"}})"));
  EXPECT_EQ(plugins.path, "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team-a/podgroups/llm");
  const auto in_tree = gang(pod("{}", R"({"schedulingGroup": {"podGroupName": "llm"}})"));
  EXPECT_EQ(in_tree.path, "/apis/scheduling.k8s.io/v1alpha2/namespaces/team-a/podgroups/llm");
  const auto workload = gang(
      pod("{}", R"({"workloadRef": {"name": "llm", "podGroup": "w", "podGroupReplicaKey": "1"}})"));
  EXPECT_EQ(workload.path, "/apis/scheduling.k8s.io/v1alpha1/namespaces/team-a/workloads/llm");
  EXPECT_EQ(workload.part, "w");
}

TEST(GangReference, AJobSetThatIsStartedAgainIsAnotherGang) {
  const auto first = gang(pod(R"({"labels": {"jobset.sigs.k8s.io/jobset-name": "llm",
      "jobset.sigs.k8s.io/restart-attempt": "0", "jobset.sigs.k8s.io/replicatedjob-name": "worker",
      "jobset.sigs.k8s.io/job-global-index": "2"},
      "annotations": {"batch.kubernetes.io/job-completion-index": "3"}})"));
  const auto second = gang(pod(R"({"labels": {"jobset.sigs.k8s.io/jobset-name": "llm",
      "jobset.sigs.k8s.io/restart-attempt": "1"}})"));
  EXPECT_EQ(first.path, "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team-a/jobsets/llm");
  EXPECT_EQ(first.part, "worker");
  EXPECT_EQ(first.rank, (GangRank{2, 3}));
  EXPECT_NE(first.key(), second.key());
}

TEST(GangReference, EveryGroupOfALeaderWorkerSetIsAGang) {
  const auto leader = gang(pod(R"({"labels": {"leaderworkerset.sigs.k8s.io/name": "serve",
      "leaderworkerset.sigs.k8s.io/group-index": "1",
      "leaderworkerset.sigs.k8s.io/worker-index": "0"}})"));
  const auto worker = gang(pod(R"({"labels": {"leaderworkerset.sigs.k8s.io/name": "serve",
      "leaderworkerset.sigs.k8s.io/group-index": "1",
      "leaderworkerset.sigs.k8s.io/worker-index": "2"}})"));
  const auto other = gang(pod(R"({"labels": {"leaderworkerset.sigs.k8s.io/name": "serve",
      "leaderworkerset.sigs.k8s.io/group-index": "0",
      "leaderworkerset.sigs.k8s.io/worker-index": "2"}})"));
  EXPECT_EQ(leader.path,
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/team-a/leaderworkersets/serve");
  EXPECT_EQ(leader.key(), worker.key());
  EXPECT_NE(other.key(), worker.key());
  EXPECT_EQ(leader.part, "leader");
  EXPECT_EQ(worker.part, "worker");
  EXPECT_LT(leader.rank, worker.rank);
}

TEST(GangReference, FindsKubeflowsJobsByTheirOwner) {
  const std::string master = owned_by("kubeflow.org/v1", "PyTorchJob", "llm", R"({"labels": {
      "training.kubeflow.org/replica-type": "master",
      "training.kubeflow.org/replica-index": "0"}})");
  const std::string worker = owned_by("kubeflow.org/v1", "PyTorchJob", "llm", R"({"labels": {
      "training.kubeflow.org/replica-type": "worker",
      "training.kubeflow.org/replica-index": "0"}})");
  EXPECT_EQ(gang(pod(master.c_str())).path,
            "/apis/kubeflow.org/v1/namespaces/team-a/pytorchjobs/llm");
  EXPECT_LT(gang(pod(master.c_str())).rank, gang(pod(worker.c_str())).rank);
  const std::string mpi = owned_by("kubeflow.org/v2beta1", "MPIJob", "llm", R"({"labels": {
      "training.kubeflow.org/replica-type": "worker"}})");
  EXPECT_EQ(gang(pod(mpi.c_str())).path,
            "/apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs/llm");
  const std::string launcher = owned_by("kubeflow.org/v1", "MPIJob", "llm", R"({"labels": {
      "training.kubeflow.org/replica-type": "launcher"}})");
  EXPECT_FALSE(read_gang(pod(launcher.c_str()), asks()));
  EXPECT_FALSE(read_gang(pod(owned_by("evil.example/v1", "PyTorchJob", "llm").c_str()), asks()));
}

TEST(GangReference, FindsRayClustersAndIndexedJobs) {
  const std::string ray =
      owned_by("ray.io/v1", "RayCluster", "llm", R"({"labels": {"ray.io/node-type": "worker"}})");
  EXPECT_EQ(gang(pod(ray.c_str())).path, "/apis/ray.io/v1/namespaces/team-a/rayclusters/llm");
  const std::string job = owned_by(
      "batch/v1", "Job", "llm", R"({"labels": {"batch.kubernetes.io/job-completion-index": "7"}})");
  EXPECT_EQ(gang(pod(job.c_str())).path, "/apis/batch/v1/namespaces/team-a/jobs/llm");
  EXPECT_EQ(gang(pod(job.c_str())).rank.index, 7U);
}

// Labels are written by whoever may make pods.
TEST(GangReference, NamesNoPathThatIsNotAnObject) {
  for (const char* const name : {"..", "a/b", "../../secrets/x", "A", "a?watch=1", ""}) {
    const json::object document =
        pod(json::serialize(
                json::object{{"labels", json::object{{"jobset.sigs.k8s.io/jobset-name", name}}}})
                .c_str());
    EXPECT_FALSE(read_gang(document, asks())) << name;
  }
}

// --- How many there are ---

constexpr const char* kAsks = R"({"spec": {"containers": [{"name": "main",
    "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}})";
constexpr const char* kAsksNot = R"({"spec": {"containers": [{"name": "main"}]}})";

// "@" is a template that asks for a GPU, "-" one that does not.
GangSize size(GangKind kind, std::string spec, const std::string& part = "") {
  const auto replace = [&spec](std::string_view what, const char* with) {
    for (std::size_t at = spec.find(what); at != std::string::npos; at = spec.find(what, at)) {
      spec.replace(at, what.size(), with);
      at += std::string_view(with).size();
    }
  };
  replace("@", kAsks);
  replace("~", kAsksNot);
  GangReference reference{.kind = kind, .what = "x", .name = "llm"};
  reference.part = part;
  const json::object object{
      {"metadata", json::object{{"creationTimestamp", "2026-11-18T10:00:00Z"}}},
      {"spec", json::parse(spec)}};
  const auto read = read_gang_size(reference, object, {});
  EXPECT_TRUE(read.has_value());
  EXPECT_NE(read->created, WallTime());
  return read.value_or(GangSize{});
}

TEST(GangSize, OfGroupsIsWhatHasToStart) {
  EXPECT_EQ(size(GangKind::kVolcano, R"({"minMember": 5})").least, 5U);
  EXPECT_TRUE(size(GangKind::kVolcano, R"({"minMember": 5})").counts_others);
  EXPECT_EQ(size(GangKind::kCoscheduling, R"({"minMember": 3})").least, 3U);
  EXPECT_EQ(size(GangKind::kKai, R"({"minMember": 2})").least, 2U);
  const GangSize in_tree =
      size(GangKind::kPodGroup, R"({"schedulingPolicy": {"gang": {"minCount": 4}},
          "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]}})");
  EXPECT_EQ(in_tree.least, 4U);
  EXPECT_EQ(in_tree.topology, "topology.kubernetes.io/zone");
  EXPECT_FALSE(size(GangKind::kPodGroup, R"({"schedulingPolicy": {"basic": {}}})").is_gang());
  EXPECT_EQ(size(GangKind::kWorkload,
                 R"({"podGroups": [{"name": "a", "policy": {"gang": {"minCount": 2}}},
                                   {"name": "b", "policy": {"gang": {"minCount": 6}}}]})",
                 "b")
                .least,
            6U);
}

TEST(GangSize, OfAJobIsAllThatRunAtOnce) {
  EXPECT_EQ(
      size(GangKind::kJob, R"({"completionMode": "Indexed", "completions": 8, "parallelism": 8})")
          .pods,
      8U);
  EXPECT_FALSE(
      size(GangKind::kJob, R"({"completionMode": "Indexed", "completions": 100, "parallelism": 8})")
          .is_gang())
      << "each of them has work of its own";
  EXPECT_FALSE(size(GangKind::kJob, R"({"completions": 8, "parallelism": 8})").is_gang());
}

TEST(GangSize, OfAJobSetCountsThoseThatAskForGpus) {
  const char* const jobs = R"("replicatedJobs": [
      {"name": "driver", "replicas": 1, "template": {"spec": {"template": ~}}},
      {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 4,
          "template": @}}},
      {"name": "eval", "template": {"spec": {"template": @}}}])";
  const GangSize all = size(GangKind::kJobSet, fmt::format("{{{}}}", jobs));
  EXPECT_EQ(all.pods, 9U);
  EXPECT_FALSE(all.by_parts);
  const GangSize in_order =
      size(GangKind::kJobSet,
           fmt::format(R"({{"startupPolicy": {{"startupPolicyOrder": "InOrder"}}, {}}})", jobs));
  EXPECT_TRUE(in_order.by_parts);
  EXPECT_EQ(in_order.parts.at("worker"), 8U);
}

TEST(GangSize, OfALeaderWorkerSetIsOneGroup) {
  EXPECT_EQ(size(GangKind::kLeaderWorkerSet,
                 R"({"replicas": 3, "leaderWorkerTemplate": {"size": 4, "workerTemplate": @}})")
                .pods,
            4U);
  EXPECT_EQ(
      size(GangKind::kLeaderWorkerSet,
           R"({"leaderWorkerTemplate": {"size": 4, "leaderTemplate": ~, "workerTemplate": @}})")
          .pods,
      3U);
  const GangSize later = size(GangKind::kLeaderWorkerSet, R"({"startupPolicy": "LeaderReady",
          "leaderWorkerTemplate": {"size": 4, "workerTemplate": @}})");
  EXPECT_TRUE(later.by_parts);
  EXPECT_EQ(later.parts.at("leader"), 1U);
  EXPECT_EQ(later.parts.at("worker"), 3U);
}

TEST(GangSize, OfKubeflowsJobsIsTheSumOfTheirReplicas) {
  EXPECT_EQ(size(GangKind::kKubeflow, R"({"pytorchReplicaSpecs": {
      "Master": {"template": @}, "Worker": {"replicas": 3, "template": @}}})")
                .pods,
            4U);
  EXPECT_EQ(size(GangKind::kKubeflow, R"({"mpiReplicaSpecs": {
      "Launcher": {"replicas": 1, "template": @}, "Worker": {"replicas": 3, "template": @}}})")
                .pods,
            3U);
  EXPECT_EQ(size(GangKind::kKubeflow, R"({"tfReplicaSpecs": {
      "PS": {"replicas": 2, "template": ~}, "Worker": {"replicas": 3, "template": @}}})")
                .pods,
            3U);
  const GangSize elastic = size(GangKind::kKubeflow, R"({"elasticPolicy": {"minReplicas": 2},
      "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": @}}})");
  EXPECT_EQ(elastic.pods, 4U);
  EXPECT_EQ(elastic.least, 2U);
}

TEST(GangSize, OfARayClusterIsItsHeadAndWorkers) {
  EXPECT_EQ(size(GangKind::kRayCluster, R"({"headGroupSpec": {"template": ~}, "workerGroupSpecs": [
      {"replicas": 2, "numOfHosts": 2, "template": @}, {"replicas": 5, "template": ~},
      {"minReplicas": 1, "template": @}]})")
                .pods,
            5U);
}

TEST(GangSize, IsNeverMoreThanAGangCanHave) {
  EXPECT_EQ(size(GangKind::kJobSet, R"({"replicatedJobs": [{"name": "w", "replicas": 4000000000,
      "template": {"spec": {"parallelism": 4000000000, "template": @}}}]})")
                .pods,
            model::Request::kMaxGangSize);
}

TEST(GangSize, IsNotKnownOfAnObjectWithoutASpec) {
  EXPECT_FALSE(read_gang_size({.kind = GangKind::kJob, .what = "Job", .name = "a"}, {}, {}));
}

}  // namespace
}  // namespace divvy::kube
