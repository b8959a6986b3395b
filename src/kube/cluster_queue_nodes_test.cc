// Nodes that come and go, are drained, labelled and tainted, and what is told to those who add
// them, against stand-ins for the rest of Kubernetes and for somebody who adds nodes.
#include "kube/cluster_queue_fixture.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using testing::ClusterQueueTest;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SimulatedCluster;
using testing::TestController;

class ClusterQueueNodes : public ClusterQueueTest {
 protected:
  void settle_all(int rounds = 4) {
    for (int i = 0; i < rounds; ++i) {
      controller_.work();
      cluster_.clock().advance(1s);
      cluster_.settle();
    }
    controller_.work();
  }
  // Of an object named `divvy`.
  TestController& planner() {
    if (!planner_) {
      ClusterQueue::Options options;
      options.capacity_plans = true;
      planner_ = std::make_unique<TestController>(cluster_, 5, std::move(options));
    }
    return *planner_;
  }
  void settle_planned(int rounds = 4) {
    for (int i = 0; i < rounds; ++i) {
      planner().work();
      cluster_.settle();
      wait(15s);
    }
    planner().work();
  }
  json::object status() {
    const auto plan = cluster_.api().get("/apis/divvy.dev/v1/capacityplans/divvy");
    return plan ? object_at(*plan, {"status"}) : json::object();
  }
  // Somebody who reads what is wanted and adds it.
  std::uint64_t provide() {
    std::uint64_t added = 0;
    const json::object said = status();
    for (const json::value& one : array_at(said, {"wanted"})) {
      const json::object& wanted = one.as_object();
      const auto gpus = static_cast<std::uint32_t>(*number_at(wanted, {"gpusPerNode"}));
      for (std::uint64_t i = 0; i < *number_at(wanted, {"nodes"}); ++i) {
        cluster_.add_node(fmt::format("added-{}", provided_++), gpus);
        ++added;
      }
    }
    cluster_.report_nodes();
    return added;
  }
  void create_kinds(const char* spec) {
    cluster_.create("/apis/divvy.dev/v1/capacityplans",
                    {{"metadata", json::object{{"name", "divvy"}}}, {"spec", json::parse(spec)}});
  }

  std::unique_ptr<TestController> planner_;
  int provided_ = 0;
};

TEST_F(ClusterQueueNodes, ANodeThatComesTakesWhoWaits) {
  run("a", "1");
  run("b", "1");
  cluster_.create_pod({.name = "c", .gpu = "1"});
  settle_all();
  ASSERT_TRUE(gated("c"));
  cluster_.add_node("later", 1);
  settle_all();
  EXPECT_TRUE(gated("c") || node_of("c") == "later");
  wait(2s);
  settle_all();
  EXPECT_EQ(node_of("c"), "later");
  EXPECT_EQ(cluster_.phase("c"), "Running");
}

TEST_F(ClusterQueueNodes, APodThatIsDrainedStartsElsewhereAndItsNodeIsLeftAlone) {
  run("a", "0.5");
  const std::string node = node_of("a");
  cluster_.set_node(node, true, true);
  controller_.work();
  // kubectl drain evicts, and whoever owns it makes another.
  ASSERT_TRUE(cluster_.api()
                  .create("/api/v1/namespaces/team-a/pods/a/eviction",
                          {{"apiVersion", "policy/v1"},
                           {"kind", "Eviction"},
                           {"metadata", json::object{{"name", "a"}, {"namespace", "team-a"}}}})
                  .has_value());
  cluster_.create_pod({.name = "a-2", .gpu = "0.5"});
  settle_all();
  EXPECT_EQ(cluster_.phase("a-2"), "Running");
  EXPECT_NE(node_of("a-2"), node);
  // It is drained; then somebody takes it back.
  cluster_.create_pod({.name = "whole", .gpu = "1"});
  settle_all();
  EXPECT_TRUE(gated("whole"));
  cluster_.set_node(node, true, false);
  settle_all();
  EXPECT_EQ(node_of("whole"), node);
}

TEST_F(ClusterQueueNodes, APodWhosePlaceWasCordonedBeforeItStartedGoesElsewhere) {
  cluster_.create_pod({.name = "a", .gpu = "0.5"});
  controller_.work();
  const std::string node = node_of("a");
  ASSERT_FALSE(node.empty());
  cluster_.set_node(node, true, true);
  cluster_.room[node] = 0;  // kube-scheduler puts nothing there
  settle_all();
  EXPECT_EQ(cluster_.phase("a"), "Running");
  EXPECT_NE(node_of("a"), node);
}

TEST_F(ClusterQueueNodes, ALabelThatComesLaterLetsAPodIn) {
  cluster_.create_pod(
      {.name = "a", .gpu = "0.5", .more = {{"nodeSelector", json::object{{"pool", "b"}}}}});
  settle_all();
  ASSERT_TRUE(gated("a"));
  cluster_.set_node("node-1", true, false, {{"pool", "b"}});
  settle_all();
  EXPECT_EQ(node_of("a"), "node-1");
  EXPECT_EQ(cluster_.phase("a"), "Running");
}

TEST_F(ClusterQueueNodes, ATaintThatGoesLetsPodsIn) {
  const json::array taints{
      json::object{{"key", "reserved"}, {"value", "yes"}, {"effect", "NoSchedule"}}};
  cluster_.set_node("node-0", true, false, {}, taints);
  cluster_.set_node("node-1", true, false, {}, taints);
  cluster_.create_pod({.name = "a", .gpu = "0.5"});
  const json::object all{{"operator", "Exists"}};
  cluster_.create_pod({.name = "b", .gpu = "0.5", .more = {{"tolerations", json::array{all}}}});
  settle_all();
  EXPECT_TRUE(gated("a"));
  EXPECT_EQ(cluster_.phase("b"), "Running");
  cluster_.set_node("node-0", true);
  settle_all();
  EXPECT_EQ(node_of("a"), "node-0");
}

TEST_F(ClusterQueueNodes, ANodeThatIsReadyAgainIsUsedAgain) {
  cluster_.set_node("node-0", false);
  cluster_.set_node("node-1", false);
  cluster_.create_pod({.name = "a", .gpu = "0.5"});
  settle_all();
  EXPECT_TRUE(gated("a"));
  cluster_.set_node("node-1", true);
  settle_all();
  EXPECT_EQ(node_of("a"), "node-1");
}

// --- What would have to be added ---

TEST_F(ClusterQueueNodes, WhoeverAddsWhatIsWantedSeesTheLineMove) {
  for (const char* const name : {"a", "b"}) cluster_.create_pod({.name = name, .gpu = "1"});
  settle_planned();
  for (const char* const name : {"c", "d"}) {
    cluster_.create_pod({.name = name, .gpu = "1"});
    wait(1s);
  }
  settle_planned();
  EXPECT_EQ(number_at(status(), {"nodesWanted"}), 2U);
  const json::object wanted = array_at(status(), {"wanted"}).at(0).as_object();
  EXPECT_EQ(text_at(wanted, {"kind"}), "node-0");
  EXPECT_EQ(text_at(wanted, {"model"}), "NVIDIA H200");
  EXPECT_EQ(array_at(wanted, {"for"}), (json::array{"pod team-a/c", "pod team-a/d"}));
  EXPECT_EQ(planner().queue().nodes_wanted().at("node-0"), 2U);
  EXPECT_THAT(events(), Contains("DivvyNodeWanted c"));
  EXPECT_EQ(std::ranges::count(events(), std::string("DivvyNodeWanted c")), 1);
  EXPECT_EQ(provide(), 2U);
  settle_planned();
  EXPECT_EQ(cluster_.phase("c"), "Running");
  EXPECT_EQ(cluster_.phase("d"), "Running");
  EXPECT_EQ(number_at(status(), {"nodesWanted"}), 0U);
  EXPECT_TRUE(planner().queue().nodes_wanted().empty());
}

TEST_F(ClusterQueueNodes, KindsThatSomebodyNamesAreWantedThoughNoNodeIsThere) {
  create_kinds(R"({"nodeKinds": [
      {"name": "large", "gpus": 8, "model": "NVIDIA H200", "memory": "141Gi"},
      {"name": "small", "gpus": 2, "model": "NVIDIA H200", "memory": "141Gi",
       "labels": {"pool": "b"}, "most": 1}]})");
  const json::object selector{{"pool", "b"}};
  for (const char* const name : {"a", "b", "c"}) {
    cluster_.create_pod({.name = name, .gpu = "2", .more = {{"nodeSelector", selector}}});
  }
  settle_planned();
  ASSERT_EQ(array_at(status(), {"wanted"}).size(), 1U);
  EXPECT_EQ(text_at(array_at(status(), {"wanted"}).at(0).as_object(), {"kind"}), "small");
  EXPECT_EQ(number_at(status(), {"nodesWanted"}), 1U);
  EXPECT_EQ(number_at(status(), {"notHelped", "pods"}), 2U);
}

TEST_F(ClusterQueueNodes, KindsThatCannotBeAreRefusedWithTheReason) {
  create_kinds(R"({"nodeKinds": [{"name": "none", "gpus": 0}]})");
  settle_planned();
  const json::object condition = array_at(status(), {"conditions"}).at(0).as_object();
  EXPECT_EQ(text_at(condition, {"status"}), "False");
  EXPECT_EQ(text_at(condition, {"message"}), "spec: nodeKinds[0]: gpus: write 1 to 16");
}

TEST_F(ClusterQueueNodes, TheCapacityPlanIsMadeAndWrittenWhenItChanges) {
  settle_planned();
  EXPECT_EQ(text_at(status(), {"free", "gpus"}), "2");
  EXPECT_EQ(number_at(status(), {"free", "largestGpus"}), 1U);
  const auto writes = [this] {
    return std::ranges::count(planner().done, ActionKind::kWriteCapacityPlan);
  };
  const auto before = writes();
  settle_planned();
  EXPECT_EQ(writes(), before);
  cluster_.create_pod({.name = "a", .gpu = "0.5"});
  settle_planned();
  EXPECT_EQ(text_at(status(), {"free", "gpus"}), "1.5");
  EXPECT_EQ(text_at(status(), {"free", "stranded"}), "0.5");
  // A controller that starts anew has nothing new to say.
  TestController fresh(cluster_, 9, [] {
    ClusterQueue::Options options;
    options.capacity_plans = true;
    return options;
  }());
  wait(15s);
  fresh.work();
  EXPECT_THAT(fresh.done, Not(Contains(ActionKind::kWriteCapacityPlan)));
  EXPECT_THAT(fresh.done, Not(Contains(ActionKind::kCreateCapacityPlan)));
}

TEST_F(ClusterQueueNodes, WhatWouldBeMovedStandsInTheCapacityPlan) {
  ClusterQueue::Options options;
  options.capacity_plans = true;
  options.defragmentation.mode = Defragmentation::kDryRun;
  options.defragmentation.least_stay = 0s;
  planner_ = std::make_unique<TestController>(cluster_, 5, std::move(options));
  for (const char* const name : {"a", "b", "c", "d"}) {
    testing::TestPod pod{.name = name, .gpu = "0.5"};
    pod.metadata = owned_by("apps/v1", "ReplicaSet", "web");
    pod.metadata["annotations"] = json::object{{kMovableAnnotation, "true"}};
    cluster_.create_pod(pod);
  }
  settle_planned();
  std::set<std::string> nodes;
  for (const char* const name : {"a", "b", "c", "d"}) {
    if (!nodes.insert(node_of(name)).second) cluster_.finish_pod(name);
  }
  settle_planned();
  cluster_.create_pod({.name = "whole", .gpu = "1"});
  settle_planned(10);
  EXPECT_EQ(text_at(status(), {"moves", "mode"}), "dry-run");
  EXPECT_EQ(text_at(status(), {"moves", "for"}), "pod team-a/whole");
  EXPECT_EQ(array_at(status(), {"moves", "steps"}).size(), 1U);
  EXPECT_EQ(text_at(status(), {"moves", "before", "stranded"}), "1");
  EXPECT_EQ(text_at(status(), {"moves", "after", "stranded"}), "0");
}

}  // namespace
}  // namespace divvy::kube
