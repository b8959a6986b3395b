// Pods that start together or not at all, against stand-ins for the rest of Kubernetes.
#include "kube/cluster_queue_fixture.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using testing::ClusterQueueTest;
using ::testing::HasSubstr;
using testing::SimulatedCluster;
using testing::TestController;
using testing::TestPod;

class ClusterQueueGangs : public ClusterQueueTest {
 protected:
  // Of a gang of two that the pods name themselves.
  void create_member(const std::string& name, const std::string& gpu = "1", std::uint32_t size = 2,
                     std::uint32_t least = 0) {
    cluster_.create_pod({.name = name, .gpu = gpu, .gang = PodGang{"llm", size, least}});
  }
  void settle_all(int rounds = 4) {
    for (int i = 0; i < rounds; ++i) {
      controller_.work();
      cluster_.clock().advance(1s);
      cluster_.settle();
    }
    controller_.work();
  }
  // An object that makes pods.
  void create_object(const std::string& group, const std::string& plural, const std::string& name,
                     const char* spec) {
    cluster_.create(fmt::format("/apis/{}/namespaces/team-a/{}", group, plural),
                    {{"metadata", json::object{{"name", name}}}, {"spec", json::parse(spec)}});
  }
  static json::object labels(std::initializer_list<std::pair<std::string_view, std::string>> all) {
    json::object labels;
    for (const auto& [name, value] : all) labels[name] = value;
    return {{"labels", std::move(labels)}};
  }
};

TEST_F(ClusterQueueGangs, WaitsUntilAllItsPodsAreThere) {
  create_member("llm-0");
  controller_.work();
  EXPECT_EQ(node_of("llm-0"), "");
  EXPECT_THAT(condition("llm-0"),
              HasSubstr("False Gang: gang llm: 1 of 2 pods is there, and they start together"));
  create_member("llm-1");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
  EXPECT_NE(node_of("llm-0"), node_of("llm-1"));
}

TEST_F(ClusterQueueGangs, WaitsUntilAllFitAndNoneStartsBefore) {
  run("other", "0.5");
  create_member("llm-0");
  create_member("llm-1");
  settle_all();
  wait(31s);
  settle_all();
  EXPECT_TRUE(gated("llm-0"));
  EXPECT_TRUE(gated("llm-1"));
  for (const char* const pod : {"llm-0", "llm-1"}) {
    EXPECT_THAT(condition(pod), HasSubstr("False Full: gang llm, 2 pods that start together: "));
  }
  cluster_.finish_pod("other");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
}

TEST_F(ClusterQueueGangs, AllocatesAllBeforeItRemovesAGate) {
  create_member("llm-0");
  create_member("llm-1");
  controller_.work();
  const auto& done = controller_.done;
  const auto first_gate = std::ranges::find(done, ActionKind::kRemoveGate);
  ASSERT_NE(first_gate, done.end());
  EXPECT_EQ(std::count(done.begin(), first_gate, ActionKind::kWriteAllocation), 2);
}

TEST_F(ClusterQueueGangs, IsBoundWhenAllAreReserved) {
  create_member("llm-0");
  create_member("llm-1");
  controller_.work();
  cluster_.room["node-1"] = 0;
  cluster_.schedule();  // reserves one of them, and finds no CPU for the other
  controller_.work();
  cluster_.settle();
  EXPECT_NE(cluster_.phase("llm-0"), "Running");
  EXPECT_NE(cluster_.phase("llm-1"), "Running");
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kEvictPod), 0);
}

TEST_F(ClusterQueueGangs, IsTakenBackWholeWhenOneIsNotTaken) {
  create_member("llm-0");
  create_member("llm-1");
  controller_.work();
  cluster_.room["node-1"] = 0;
  cluster_.room["node-0"] = 1;
  cluster_.schedule();
  wait(31s);
  settle_all();
  // Nobody holds anything, and both live on.
  EXPECT_EQ(node_of("llm-0"), "");
  EXPECT_EQ(node_of("llm-1"), "");
  EXPECT_EQ(cluster_.held(), 0U);
  EXPECT_TRUE(cluster_.pod("llm-0"));
  EXPECT_TRUE(cluster_.pod("llm-1"));
  wait(31s);
  controller_.work();
  EXPECT_THAT(condition("llm-0"), HasSubstr("taken back, because kube-scheduler did not take"));
  // When there is room again they start.
  cluster_.room["node-1"] = 1000;
  cluster_.room["node-0"] = 1000;
  for (int i = 0; i < 10; ++i) {
    wait(31s);
    settle_all(1);
  }
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
}

TEST_F(ClusterQueueGangs, StartsInOneSweepWhereThereAreNoBindingConditions) {
  cluster_.api().knows_binding_conditions = false;
  create_member("llm-0");
  create_member("llm-1");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kTellDevices), 0);
}

TEST_F(ClusterQueueGangs, AMemberThatIsNotTakenWithoutBindingConditionsIsPlacedAgain) {
  cluster_.api().knows_binding_conditions = false;
  create_member("llm-0", "0.5");
  create_member("llm-1", "0.5");
  controller_.work();
  const std::string node = node_of("llm-0");
  cluster_.room[node] = 1;
  settle_all();
  for (int i = 0; i < 4; ++i) {
    wait(31s);
    settle_all(1);
  }
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
}

TEST_F(ClusterQueueGangs, LosesAMemberAndTakesInTheNextOne) {
  create_member("llm-0");
  create_member("llm-1");
  settle_all();
  cluster_.delete_pod("llm-1");
  settle_all();
  EXPECT_EQ(cluster_.held(), 1U);
  // Its place is free for others while it is gone.
  create_member("llm-1");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
  EXPECT_EQ(controller_.queue().bookings().size(), 2U);
}

TEST_F(ClusterQueueGangs, WaitsForAllAgainWhenAllWereLost) {
  create_member("llm-0");
  create_member("llm-1");
  settle_all();
  cluster_.delete_pod("llm-0");
  cluster_.delete_pod("llm-1");
  settle_all();
  create_member("llm-0");
  settle_all();
  EXPECT_TRUE(gated("llm-0"));
  create_member("llm-1");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
}

TEST_F(ClusterQueueGangs, WhoHasSucceededIsNotWaitedFor) {
  create_member("llm-0");
  create_member("llm-1");
  settle_all();
  cluster_.finish_pod("llm-0");
  settle_all();
  cluster_.delete_pod("llm-1");
  settle_all();
  create_member("llm-1");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
}

TEST_F(ClusterQueueGangs, AMemberThatIsDeletedWhileItWaitsKeepsTheOthersWaiting) {
  run("other", "1");
  create_member("llm-0");
  create_member("llm-1");
  settle_all();
  cluster_.delete_pod("llm-1");
  cluster_.finish_pod("other");
  settle_all();
  EXPECT_TRUE(gated("llm-0"));
  wait(31s);
  settle_all();
  EXPECT_THAT(condition("llm-0"), HasSubstr("1 of 2 pods is there"));
}

TEST_F(ClusterQueueGangs, AMemberThatGoesWhileTheyAreReservedTakesTheOthersBack) {
  create_member("llm-0");
  create_member("llm-1");
  controller_.work();
  cluster_.schedule();
  cluster_.delete_pod("llm-1", true);
  settle_all();
  EXPECT_EQ(node_of("llm-0"), "");
  EXPECT_EQ(cluster_.held(), 0U);
  EXPECT_EQ(controller_.queue().bookings().size(), 0U);
}

TEST_F(ClusterQueueGangs, StartsWithItsLeastAndTheOthersJoin) {
  for (int i = 0; i < 3; ++i) create_member(fmt::format("llm-{}", i), "1", 3, 2);
  settle_all();
  int running = 0;
  for (int i = 0; i < 3; ++i) running += cluster_.phase(fmt::format("llm-{}", i)) == "Running";
  EXPECT_EQ(running, 2);
  cluster_.finish_pod("llm-0");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-2"), "Running");
}

TEST_F(ClusterQueueGangs, IsExplainedOnEveryPodWhenTheyAskForUnlikeSlices) {
  create_member("llm-0", "0.5");
  create_member("llm-1", "1");
  controller_.work();
  for (const char* const pod : {"llm-0", "llm-1"}) {
    EXPECT_THAT(condition(pod), HasSubstr("llm-0 asks for 0.5 GPU and llm-1 for 1 GPU"));
    EXPECT_THAT(condition(pod), HasSubstr("divvy.dev/gang: none"));
  }
}

TEST_F(ClusterQueueGangs, OfSlotsStartsTogether) {
  run("other", "1");
  for (const char* const name : {"llm-0", "llm-1"}) {
    cluster_.create_pod({.name = name, .gpu = "1", .slots = true, .gang = PodGang{"llm", 2, 0}});
  }
  settle_all();
  EXPECT_TRUE(gated("llm-0"));
  cluster_.finish_pod("other");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
}

// --- By the objects that make pods ---

TEST_F(ClusterQueueGangs, OfAPodGroupCountsPodsThatAskForNothing) {
  create_object("scheduling.x-k8s.io/v1alpha1", "podgroups", "llm", R"({"minMember": 3})");
  const json::object in_group = labels({{"scheduling.x-k8s.io/pod-group", "llm"}});
  cluster_.create_pod({.name = "llm-0", .gpu = "1", .metadata = in_group});
  controller_.work();
  EXPECT_THAT(condition("llm-0"), HasSubstr("PodGroup llm: 1 of 3 pods is there"));
  cluster_.create_pod({.name = "llm-1", .gpu = "1", .metadata = in_group});
  json::object launcher = in_group;
  launcher["name"] = "launcher";
  cluster_.create("/api/v1/namespaces/team-a/pods",
                  {{"metadata", launcher}, {"spec", json::object{{"nodeName", "elsewhere"}}}});
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
}

TEST_F(ClusterQueueGangs, WhoseObjectIsNotThereSaysSo) {
  const json::object in_group = labels({{"scheduling.x-k8s.io/pod-group", "llm"}});
  cluster_.create_pod({.name = "llm-0", .gpu = "1", .metadata = in_group});
  controller_.work();
  wait(2s);
  controller_.work();
  EXPECT_THAT(condition("llm-0"), HasSubstr("PodGroup llm: it is not there"));
  create_object("scheduling.x-k8s.io/v1alpha1", "podgroups", "llm", R"({"minMember": 1})");
  for (int i = 0; i < 4; ++i) {
    wait(31s);
    settle_all(1);
  }
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
}

constexpr const char* kPyTorchJob = R"({"pytorchReplicaSpecs": {
    "Master": {"replicas": 1, "template": {"spec": {"containers": [{"name": "main",
        "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}},
    "Worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "main",
        "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}}}})";

TEST_F(ClusterQueueGangs, OfAPyTorchJobWaitsForMasterAndWorkers) {
  create_object("kubeflow.org/v1", "pytorchjobs", "llm", kPyTorchJob);
  const auto member = [this](const char* role) {
    return owned_by("kubeflow.org/v1", "PyTorchJob", "llm",
                    labels({{"training.kubeflow.org/replica-type", role},
                            {"training.kubeflow.org/replica-index", "0"}}));
  };
  cluster_.create_pod({.name = "llm-master-0", .gpu = "1", .metadata = member("master")});
  settle_all();
  EXPECT_TRUE(gated("llm-master-0"));
  cluster_.create_pod({.name = "llm-worker-0", .gpu = "1", .metadata = member("worker")});
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-master-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-worker-0"), "Running");
}

TEST_F(ClusterQueueGangs, OfAnIndexedJobThatIsNoGangStartsEachPodByItself) {
  create_object("batch/v1", "jobs", "sweep",
                R"({"completionMode": "Indexed", "completions": 100, "parallelism": 2})");
  cluster_.create_pod(
      {.name = "sweep-0",
       .gpu = "1",
       .metadata = owned_by("batch/v1", "Job", "sweep",
                            labels({{"batch.kubernetes.io/job-completion-index", "0"}}))});
  settle_all();
  EXPECT_EQ(cluster_.phase("sweep-0"), "Running");
}

TEST_F(ClusterQueueGangs, OfALeaderWorkerSetWhoseWorkersComeLaterStartsTheLeaderFirst) {
  create_object("leaderworkerset.x-k8s.io/v1", "leaderworkersets", "serve",
                R"({"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 3,
                    "workerTemplate": {"spec": {"containers": [{"name": "main",
                    "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}}})");
  const auto member = [](const char* index) {
    return labels({{"leaderworkerset.sigs.k8s.io/name", "serve"},
                   {"leaderworkerset.sigs.k8s.io/group-index", "0"},
                   {"leaderworkerset.sigs.k8s.io/worker-index", index}});
  };
  cluster_.create_pod({.name = "serve-0", .gpu = "0.5", .metadata = member("0")});
  settle_all();
  EXPECT_EQ(cluster_.phase("serve-0"), "Running");
  cluster_.create_pod({.name = "serve-0-1", .gpu = "0.5", .metadata = member("1")});
  settle_all();
  EXPECT_TRUE(gated("serve-0-1")) << "its sister is not there";
  cluster_.create_pod({.name = "serve-0-2", .gpu = "0.5", .metadata = member("2")});
  settle_all();
  EXPECT_EQ(cluster_.phase("serve-0-1"), "Running");
  EXPECT_EQ(cluster_.phase("serve-0-2"), "Running");
}

// --- Where ---

TEST_F(ClusterQueueGangs, RanksFollowTheirOrderFromNodeToNode) {
  SimulatedCluster cluster(2, 2);
  TestController controller(cluster, 1);
  for (const int i : {3, 0, 2, 1}) {
    cluster.create_pod({.name = fmt::format("w-{}", i),
                        .gpu = "1",
                        .metadata = labels({{"apps.kubernetes.io/pod-index", std::to_string(i)}}),
                        .gang = PodGang{"llm", 4, 0}});
  }
  controller.work();
  const auto node = [&cluster](int i) {
    return (*read_allocation(*cluster.claim(fmt::format("w-{}", i))))->node;
  };
  EXPECT_EQ(node(0), node(1));
  EXPECT_EQ(node(2), node(3));
  EXPECT_NE(node(0), node(2));
}

TEST_F(ClusterQueueGangs, StaysInOneRackWhereItHasTo) {
  SimulatedCluster cluster(4, 1);
  for (int i = 0; i < 4; ++i) {
    cluster.set_node(fmt::format("node-{}", i), true, false,
                     {{"topology.kubernetes.io/rack", i % 2 == 0 ? "even" : "odd"}});
  }
  TestController controller(cluster, 1);
  cluster.create_pod({.name = "other", .gpu = "0.5"});
  controller.work();
  const std::string taken = (*read_allocation(*cluster.claim("other")))->node;
  const bool even = taken == "node-0" || taken == "node-2";
  for (const char* const name : {"llm-0", "llm-1"}) {
    cluster.create_pod({.name = name,
                        .gpu = "1",
                        .gang = PodGang{"llm", 2, 0},
                        .near = {model::Closeness::kRack, true}});
  }
  controller.work();
  std::set<std::string> nodes;
  for (const char* const name : {"llm-0", "llm-1"}) {
    nodes.insert((*read_allocation(*cluster.claim(name)))->node);
  }
  EXPECT_EQ(nodes, even ? (std::set<std::string>{"node-1", "node-3"})
                        : (std::set<std::string>{"node-0", "node-2"}));
}

// --- A controller that begins anew ---

TEST_F(ClusterQueueGangs, AFreshControllerFinishesWhatWasBegunOrTakesItBack) {
  // After each number of actions of the first controller another one goes on.
  for (std::size_t steps = 0; steps < 30; ++steps) {
    SimulatedCluster cluster(2, 1);
    for (const char* const name : {"llm-0", "llm-1"}) {
      cluster.create_pod({.name = name, .gpu = "1", .gang = PodGang{"llm", 2, 0}});
    }
    {
      TestController first(cluster, 1);
      for (std::size_t i = 0; i < steps; ++i) {
        first.hear_all();
        first.decide();
        if (first.actions() == 0) cluster.schedule();
        if (first.actions() != 0) first.act(0);
      }
    }
    TestController second(cluster, 2);
    for (int i = 0; i < 8; ++i) {
      second.work();
      cluster.settle();
      cluster.clock().advance(10s);
    }
    EXPECT_EQ(cluster.phase("llm-0"), "Running") << steps;
    EXPECT_EQ(cluster.phase("llm-1"), "Running") << steps;
  }
}

TEST_F(ClusterQueueGangs, IsOneJobAfterARestart) {
  create_member("llm-0");
  create_member("llm-1");
  settle_all();
  TestController fresh(cluster_, 2);
  fresh.work();
  EXPECT_EQ(fresh.queue().bookings().size(), 2U);
  cluster_.delete_pod("llm-0");
  cluster_.delete_pod("llm-1");
  for (int i = 0; i < 4; ++i) {
    cluster_.clock().advance(1s);
    cluster_.settle();
    fresh.work();
  }
  EXPECT_TRUE(fresh.queue().bookings().empty());
}

}  // namespace
}  // namespace divvy::kube
