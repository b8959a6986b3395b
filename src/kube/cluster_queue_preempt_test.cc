// Queues that are objects, pods that make way for others, and disruption budgets, against stand-ins
// for the rest of Kubernetes.
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

class ClusterQueuePreemption : public ClusterQueueTest {
 protected:
  void create(const std::string& name, std::int32_t priority, const std::string& gpu = "1",
              const std::string& space = "team-a") {
    cluster_.create_pod({.name = name,
                         .gpu = gpu,
                         .space = space,
                         .metadata = owned_by("apps/v1", "ReplicaSet", "web"),
                         .priority = priority});
  }
  void create_member(const std::string& name, std::uint32_t size, std::int32_t priority = 0) {
    cluster_.create_pod({.name = name,
                         .gpu = "1",
                         .metadata = owned_by("apps/v1", "ReplicaSet", "web"),
                         .gang = PodGang{"llm", size, 0},
                         .priority = priority});
  }
  void settle_all(int rounds = 4) {
    for (int i = 0; i < rounds; ++i) {
      controller_.work();
      cluster_.clock().advance(1s);
      cluster_.settle();
    }
    wait(2s);
    controller_.work();
  }
  void create_queue(const char* name, const char* spec) {
    cluster_.create("/apis/divvy.dev/v1/queues",
                    {{"metadata", json::object{{"name", name}}}, {"spec", json::parse(spec)}});
  }
  void put_in(const char* space, const char* queue) {
    const auto changed = cluster_.api().patch(
        fmt::format("/api/v1/namespaces/{}", space), PatchType::kMerge,
        json::parse(
            fmt::format(R"({{"metadata": {{"labels": {{"divvy.dev/queue": "{}"}}}}}})", queue)));
    ASSERT_TRUE(changed.has_value());
  }
  json::object status(const char* queue) {
    const auto found = cluster_.api().get(fmt::format("/apis/divvy.dev/v1/queues/{}", queue));
    return found ? object_at(*found, {"status"}) : json::object();
  }
  std::string told(const std::string& pod, const std::string& reason,
                   const std::string& space = "team-a") {
    for (const json::object& event : cluster_.api().list("/api/v1/events")) {
      if (text_at(event, {"reason"}) == reason &&
          text_at(event, {"metadata", "namespace"}) == space &&
          text_at(event, {"involvedObject", "name"}) == pod) {
        return std::string(text_at(event, {"message"}));
      }
    }
    return "";
  }
};

TEST_F(ClusterQueuePreemption, APodOfLowerPriorityMakesWayAndBothAreTold) {
  create("low-0", 0);
  create("low-1", 5);
  settle_all();
  create("urgent", 10);
  controller_.work();
  EXPECT_THAT(controller_.done, Contains(ActionKind::kEvictPod));
  EXPECT_EQ(told("low-0", "DivvyEvicted"),
            "preempted by pod team-a/urgent, whose priority is 10 (this one's is 0)");
  EXPECT_THAT(told("urgent", "DivvyMakesRoom"), HasSubstr("pod team-a/low-0 makes way for it"));
  wait(31s);
  controller_.work();
  EXPECT_THAT(condition("urgent"), HasSubstr("False MakingRoom: 1 job makes way for it"));
  settle_all();
  EXPECT_EQ(cluster_.phase("urgent"), "Running");
  EXPECT_EQ(cluster_.phase("low-1"), "Running");
  EXPECT_FALSE(cluster_.pod("low-0"));
}

TEST_F(ClusterQueuePreemption, ThePlaceIsKeptUntilTheNodeHasLetGo) {
  create("low-0", 0);
  create("low-1", 0);
  settle_all();
  create("urgent", 10);
  controller_.work();
  create("small", 0, "0.5");
  // The pod and its claim are gone, and the node has not said that it let go.
  const std::string victim = told("low-0", "DivvyEvicted").empty() ? "low-1" : "low-0";
  const std::string node = node_of(victim);
  cluster_.run_kubelets();
  cluster_.manage();
  cluster_.manage();
  cluster_.manage();
  controller_.work();
  EXPECT_EQ(node_of("small"), "");
  EXPECT_EQ(node_of("urgent"), "");
  cluster_.report_nodes();
  controller_.work();
  EXPECT_EQ(node_of("urgent"), node);
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kEvictPod), 1);
}

TEST_F(ClusterQueuePreemption, OnlyPodsThatSomebodyMakesAnewMakeWay) {
  cluster_.create_pod({.name = "bare-0", .gpu = "1"});
  cluster_.create_pod({.name = "bare-1", .gpu = "1"});
  settle_all();
  create("urgent", 10);
  settle_all();
  EXPECT_THAT(controller_.done, Not(Contains(ActionKind::kEvictPod)));
  EXPECT_EQ(cluster_.phase("bare-0"), "Running");
}

TEST_F(ClusterQueuePreemption, APodThatSaysSoMakesWayThoughNobodyOwnsIt) {
  cluster_.create_pod(
      {.name = "bare-0",
       .gpu = "1",
       .metadata = {{"annotations", json::object{{"divvy.dev/preemptible", "true"}}}}});
  cluster_.create_pod({.name = "bare-1", .gpu = "1"});
  settle_all();
  create("urgent", 10);
  settle_all();
  EXPECT_EQ(cluster_.phase("urgent"), "Running");
  EXPECT_EQ(cluster_.phase("bare-1"), "Running");
}

TEST_F(ClusterQueuePreemption, NobodyIsEvictedWhereItDoesNotHelp) {
  create("low-0", 0);
  cluster_.create_pod({.name = "bare", .gpu = "1"});
  settle_all();
  create("huge", 10, "2");
  settle_all();
  EXPECT_THAT(controller_.done, Not(Contains(ActionKind::kEvictPod)));
}

TEST_F(ClusterQueuePreemption, WhomABudgetKeepsIsSparedAndAnotherIsChosen) {
  create("low-0", 0);
  create("low-1", 1);
  settle_all();
  cluster_.api().kept_by_budget = {"low-0"};
  create("urgent", 10);
  settle_all(6);
  EXPECT_EQ(cluster_.phase("low-0"), "Running");
  EXPECT_FALSE(cluster_.pod("low-1"));
  EXPECT_EQ(cluster_.phase("urgent"), "Running");
}

TEST_F(ClusterQueuePreemption, WhomABudgetKeptIsAskedAgainLater) {
  create("low-0", 0);
  cluster_.create_pod({.name = "bare", .gpu = "1"});
  settle_all();
  cluster_.api().kept_by_budget = {"low-0"};
  create("urgent", 10);
  settle_all();
  EXPECT_EQ(cluster_.phase("low-0"), "Running");
  cluster_.api().kept_by_budget.clear();
  for (int i = 0; i < 11; ++i) {
    wait(30s);
    settle_all(1);
  }
  EXPECT_EQ(cluster_.phase("urgent"), "Running");
}

TEST_F(ClusterQueuePreemption, AGangMakesWayAsAWhole) {
  create_member("llm-0", 2);
  create_member("llm-1", 2);
  settle_all();
  ASSERT_EQ(cluster_.phase("llm-0"), "Running");
  create("urgent", 10);
  controller_.work();
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kTryEviction), 2);
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kEvictPod), 2);
  EXPECT_THAT(told("urgent", "DivvyMakesRoom"), HasSubstr("gang llm in team-a makes way"));
  settle_all();
  EXPECT_EQ(cluster_.phase("urgent"), "Running");
  EXPECT_FALSE(cluster_.pod("llm-0"));
  EXPECT_FALSE(cluster_.pod("llm-1"));
  // Whoever owns it makes it anew, and it waits for its turn.
  create_member("llm-0", 2);
  create_member("llm-1", 2);
  settle_all();
  EXPECT_TRUE(gated("llm-0"));
  cluster_.finish_pod("urgent");
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
}

TEST_F(ClusterQueuePreemption, AGangOfWhichABudgetKeepsOneStaysWhole) {
  create_member("llm-0", 2);
  create_member("llm-1", 2);
  settle_all();
  cluster_.api().kept_by_budget = {"llm-1"};
  create("urgent", 10);
  settle_all();
  EXPECT_EQ(cluster_.phase("llm-0"), "Running");
  EXPECT_EQ(cluster_.phase("llm-1"), "Running");
  EXPECT_THAT(controller_.done, Not(Contains(ActionKind::kEvictPod)));
  cluster_.delete_pod("llm-0");
  settle_all();
  EXPECT_EQ(cluster_.phase("urgent"), "Running") << "what one of them leaves is free";
}

TEST_F(ClusterQueuePreemption, AGangThatWasRestoredMakesWayAsAWhole) {
  create_member("llm-0", 2);
  create_member("llm-1", 2);
  settle_all();
  TestController fresh(cluster_, 2);
  fresh.work();
  create("urgent", 10);
  wait(2s);
  fresh.work();
  EXPECT_EQ(std::ranges::count(fresh.done, ActionKind::kEvictPod), 2);
}

TEST_F(ClusterQueuePreemption, AnEvictionWithoutAnAnswerIsAskedForAgain) {
  create("low-0", 0);
  create("low-1", 0);
  settle_all();
  create("urgent", 10);
  controller_.hear_all();
  controller_.decide();
  while (controller_.actions() > 0) {
    const bool evicts = controller_.queued().front().kind == ActionKind::kEvictPod;
    controller_.act(0, evicts ? TestController::Fault::kNotDone : TestController::Fault::kNone);
  }
  for (int i = 0; i < 3; ++i) settle_all(2);
  EXPECT_EQ(cluster_.phase("urgent"), "Running");
}

// --- Queues ---

TEST_F(ClusterQueuePreemption, AQueueIsPromisedItsQuotaAndGetsItBack) {
  create_queue("a", R"({"quota": {"gpus": 1}})");
  create_queue("b", R"({"quota": {"gpus": "1"}})");
  put_in("team-a", "a");
  put_in("team-b", "b");
  create("a-0", 0);
  create("a-1", 0);
  settle_all();
  EXPECT_EQ(cluster_.phase("a-0"), "Running");
  EXPECT_EQ(cluster_.phase("a-1"), "Running");
  EXPECT_EQ(text_at(status("a"), {"held", "gpus"}), "2");
  EXPECT_EQ(text_at(status("a"), {"borrowed", "gpus"}), "1");
  create("b-0", -5, "1", "team-b");
  controller_.work();
  const std::string victim = told("a-0", "DivvyEvicted").empty() ? "a-1" : "a-0";
  EXPECT_EQ(told(victim, "DivvyEvicted"),
            "queue a had borrowed its GPUs from queue b, which wants them back for pod team-b/b-0");
  settle_all();
  EXPECT_EQ(cluster_.phase("b-0", "team-b"), "Running");
  EXPECT_EQ(text_at(status("a"), {"held", "gpus"}), "1");
  EXPECT_EQ(text_at(status("a"), {"borrowed", "gpus"}), "0");
}

TEST_F(ClusterQueuePreemption, AQueueThatMayNotBorrowWaitsAndSaysSo) {
  create_queue("a", R"({"quota": {"gpus": "1"}, "mayBorrow": false})");
  put_in("team-a", "a");
  create("a-0", 0);
  create("a-1", 0);
  settle_all();
  EXPECT_EQ(number_at(status("a"), {"waiting"}), 1U);
  const std::string waits = gated("a-0") ? "a-0" : "a-1";
  EXPECT_THAT(condition(waits), HasSubstr("False Quota: "));
  // Somebody gives it more.
  const auto changed = cluster_.api().patch("/apis/divvy.dev/v1/queues/a", PatchType::kMerge,
                                            json::parse(R"({"spec": {"quota": {"gpus": "2"}}})"));
  ASSERT_TRUE(changed.has_value());
  settle_all();
  EXPECT_EQ(cluster_.phase(waits), "Running");
}

TEST_F(ClusterQueuePreemption, QueuesAreATreeByTheirParents) {
  create_queue("research", R"({"quota": {"gpus": "1"}, "mayBorrow": false})");
  create_queue("vision", R"({"parent": "research"})");
  put_in("team-a", "vision");
  create("a-0", 0);
  create("a-1", 0);
  settle_all();
  EXPECT_EQ(text_at(status("vision"), {"path"}), "research/vision");
  EXPECT_EQ(text_at(status("research"), {"held", "gpus"}), "1");
  EXPECT_NE(cluster_.phase("a-0") == "Running", cluster_.phase("a-1") == "Running");
}

TEST_F(ClusterQueuePreemption, AQueueThatCannotHoldSaysWhy) {
  create_queue("lost", R"({"parent": "nobody"})");
  create_queue("small", R"({"quota": {"gpus": "2"}, "mostGpus": "1"})");
  create_queue("round", R"({"parent": "round"})");
  settle_all();
  const auto message = [this](const char* queue) {
    return std::string(
        text_at(array_at(status(queue), {"conditions"}).at(0).as_object(), {"message"}));
  };
  EXPECT_EQ(message("lost"), "spec.parent: there is no queue nobody");
  EXPECT_THAT(message("small"), HasSubstr("is less than its quota"));
  EXPECT_THAT(message("round"), HasSubstr("none is above itself"));
}

TEST_F(ClusterQueuePreemption, AFreshControllerWritesNoStatusThatIsThere) {
  create_queue("a", R"({"quota": {"gpus": "1"}})");
  put_in("team-a", "a");
  create("a-0", 0);
  settle_all();
  TestController fresh(cluster_, 2);
  wait(10s);
  fresh.work();
  EXPECT_THAT(fresh.done, Not(Contains(ActionKind::kWriteQueue)));
}

}  // namespace
}  // namespace divvy::kube
