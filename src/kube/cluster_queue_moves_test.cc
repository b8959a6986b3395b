// Pods that are moved so that one that waits finds its GPUs in one piece, against stand-ins for the
// rest of Kubernetes.
#include "kube/cluster_queue_fixture.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using testing::ClusterQueueTest;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::SimulatedCluster;
using testing::TestController;

// Two nodes with a GPU each. `left` and `right` have half of one each, and `whole` waits.
class ClusterQueueMoves : public ClusterQueueTest {
 protected:
  void start() { moving_controller_ = std::make_unique<TestController>(cluster_, ++seed_, rules_); }
  void start(Defragmentation mode) {
    rules_.defragmentation.mode = mode;
    start();
  }
  TestController& controller() { return *moving_controller_; }
  // Nobody makes it anew.
  void create_alone(const std::string& name, const std::string& gpu) {
    cluster_.create_pod({.name = name, .gpu = gpu});
  }
  void create(const std::string& name, const std::string& gpu,
              json::object annotations = movable()) {
    testing::TestPod pod{.name = name, .gpu = gpu};
    pod.metadata = owned_by("apps/v1", "ReplicaSet", "web");
    pod.metadata["annotations"] = std::move(annotations);
    cluster_.create_pod(pod);
  }
  static json::object movable() { return {{std::string(kMovableAnnotation), "true"}}; }

  void settle_all(int rounds = 4) {
    for (int i = 0; i < rounds; ++i) {
      controller().work();
      cluster_.clock().advance(1s);
      cluster_.settle();
    }
    controller().work();
  }
  // Both are where they are for long enough, and somebody waits for long enough.
  void fragment(json::object annotations = movable()) {
    for (const char* const name : {"a", "b", "c", "d"}) create(name, "0.5", annotations);
    settle_all();
    const std::string node = node_of("a");
    for (const char* const name : {"b", "c", "d"}) {
      if (node_of(name) == node) cluster_.finish_pod(name);
      if (node_of(name) != node && right_.empty()) {
        right_ = name;
      } else if (node_of(name) != node) {
        cluster_.finish_pod(name);
      }
    }
    settle_all();
    ASSERT_NE(node_of("a"), node_of(right_));
    wait(31min);
    create_alone("whole", "1");
    settle_all();
    ASSERT_TRUE(gated("whole"));
    wait(2min);
  }
  // As whoever owns them would: for each that is gone there is a new one.
  void make_anew(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (!cluster_.pod(name) && !cluster_.pod(name + "-2")) create(name + "-2", "0.5");
    }
  }
  std::string told(const std::string& pod, const std::string& reason) {
    for (const json::object& event : cluster_.api().list("/api/v1/events")) {
      if (text_at(event, {"reason"}) == reason &&
          text_at(event, {"involvedObject", "name"}) == pod) {
        return std::string(text_at(event, {"message"}));
      }
    }
    return "";
  }
  std::ptrdiff_t evictions() {
    return std::ranges::count(controller().done, ActionKind::kEvictPod);
  }

  std::string right_;
  ClusterQueue::Options rules_;
  std::uint64_t seed_ = 0;
  std::unique_ptr<TestController> moving_controller_;
};

TEST_F(ClusterQueueMoves, APodGoesElsewhereAndTheOneThatWaitsFits) {
  start(Defragmentation::kOn);
  fragment();
  controller().work();
  ASSERT_EQ(evictions(), 1);
  const std::string mover = told("a", "DivvyEvicted").empty() ? right_ : "a";
  const std::string stays = mover == "a" ? right_ : "a";
  const std::string free = node_of(mover);
  const std::string other = node_of(stays);
  EXPECT_EQ(told(mover, "DivvyEvicted"),
            fmt::format("moved to 0.5 of gpu0 of {}, so that pod team-a/whole finds its GPUs in "
                        "one piece",
                        other));
  EXPECT_EQ(told("whole", "DivvyMakesRoom"),
            fmt::format("pod team-a/{} moves from 0.5 of gpu0 of {} to 0.5 of gpu0 of {}, so that "
                        "it fits on {}: 1 of 1",
                        mover, free, other, free));
  EXPECT_THAT(condition("whole"), HasSubstr("False MakingRoom"));
  cluster_.settle();
  make_anew({mover});
  settle_all();
  EXPECT_EQ(cluster_.phase("whole"), "Running");
  EXPECT_EQ(node_of("whole"), free);
  EXPECT_EQ(cluster_.phase(mover + "-2"), "Running");
  EXPECT_EQ(node_of(mover + "-2"), other);
  EXPECT_EQ(controller().queue().moves().finished, 1U);
  EXPECT_FALSE(controller().queue().moves().under_way);
  EXPECT_EQ(evictions(), 1);
}

TEST_F(ClusterQueueMoves, ADryRunTellsAndMovesNobody) {
  start(Defragmentation::kDryRun);
  fragment();
  settle_all();
  wait(31s);
  controller().work();
  EXPECT_EQ(evictions(), 0);
  EXPECT_THAT(told("whole", "DivvyWouldMove"),
              HasSubstr("the largest job that fits is then of 1 GPU instead of 0.5, and 0 GPU are "
                        "stranded instead of 1"));
  EXPECT_THAT(condition("whole"), HasSubstr("if 1 pod is moved: team-a/"));
  const auto& planned = controller().queue().planned_moves();
  ASSERT_TRUE(planned.has_value());
  EXPECT_EQ(planned->pod, "pod team-a/whole");
  EXPECT_EQ(planned->moves.size(), 1U);
  // It is told once.
  const auto tellings = [this] {
    return std::ranges::count(events(), std::string("DivvyWouldMove whole"));
  };
  wait(5min);
  settle_all();
  EXPECT_EQ(tellings(), 1);
  cluster_.finish_pod(right_);
  settle_all();
  EXPECT_EQ(cluster_.phase("whole"), "Running");
  EXPECT_FALSE(controller().queue().planned_moves().has_value());
}

TEST_F(ClusterQueueMoves, NobodyIsMovedUnlessToldSo) {
  start(Defragmentation::kOff);
  fragment();
  settle_all();
  EXPECT_EQ(evictions(), 0);
  EXPECT_FALSE(controller().queue().planned_moves().has_value());
}

TEST_F(ClusterQueueMoves, OnlyPodsThatSaySo) {
  start(Defragmentation::kOn);
  fragment({});
  settle_all();
  EXPECT_EQ(evictions(), 0);
}

TEST_F(ClusterQueueMoves, APolicySpeaksForThePodsOfItsNamespaces) {
  start(Defragmentation::kOn);
  cluster_.create(
      "/apis/divvy.dev/v1/policies",
      {{"metadata", json::object{{"name", "movable"}}},
       {"spec", json::object{{"namespaces", json::array{"team-a"}}, {"movable", true}}}});
  fragment({});
  settle_all();
  EXPECT_EQ(evictions(), 1);
}

TEST_F(ClusterQueueMoves, APodThatSaysNoStaysWhateverItsPolicySays) {
  start(Defragmentation::kOn);
  cluster_.create(
      "/apis/divvy.dev/v1/policies",
      {{"metadata", json::object{{"name", "movable"}}},
       {"spec", json::object{{"namespaces", json::array{"team-a"}}, {"movable", true}}}});
  fragment({{std::string(kMovableAnnotation), "false"}});
  settle_all();
  EXPECT_EQ(evictions(), 0);
}

TEST_F(ClusterQueueMoves, WhomABudgetKeepsStaysAndAnotherIsMoved) {
  start(Defragmentation::kOn);
  fragment();
  cluster_.api().kept_by_budget = {"a"};
  for (int i = 0; i < 15 && !controller().queue().moves().under_way; ++i) {
    controller().work();
    wait(1min);
  }
  for (int i = 0; i < 15; ++i) {
    settle_all();
    make_anew({"a", right_});
    wait(1min);
  }
  EXPECT_EQ(cluster_.phase("a"), "Running");
  EXPECT_EQ(cluster_.phase(right_ + "-2"), "Running");
  EXPECT_EQ(node_of(right_ + "-2"), node_of("a"));
  EXPECT_EQ(cluster_.phase("whole"), "Running");
}

TEST_F(ClusterQueueMoves, BothPlacesAreKeptWhileAPodMoves) {
  start(Defragmentation::kOn);
  fragment();
  controller().work();
  ASSERT_EQ(evictions(), 1);
  const std::string mover = told("a", "DivvyEvicted").empty() ? right_ : "a";
  const std::string free = node_of(mover);
  // Three come that would fit on what is free: one on each node, and where the pod was.
  for (const char* const name : {"x", "y", "z"}) create_alone(name, "0.5");
  settle_all();
  EXPECT_TRUE(gated("x"));
  EXPECT_TRUE(gated("y"));
  EXPECT_TRUE(gated("z"));
  EXPECT_TRUE(gated("whole")) << "its place is free, and the pod that made it free has none yet";
  make_anew({mover});
  settle_all();
  EXPECT_EQ(cluster_.phase("whole"), "Running");
  EXPECT_EQ(node_of("whole"), free);
  EXPECT_EQ(cluster_.phase(mover + "-2"), "Running");
  EXPECT_TRUE(gated("x"));
}

TEST_F(ClusterQueueMoves, ASuccessorThatDoesNotComeIsNotWaitedForLong) {
  start(Defragmentation::kOn);
  fragment();
  settle_all();
  EXPECT_TRUE(gated("whole"));
  wait(3min);
  settle_all();
  EXPECT_EQ(cluster_.phase("whole"), "Running");
  create_alone("x", "0.5");
  settle_all();
  EXPECT_EQ(cluster_.phase("x"), "Running") << "nothing is kept any more";
}

TEST_F(ClusterQueueMoves, AreGivenUpWhenTheSuccessorDoesNotStart) {
  start(Defragmentation::kOn);
  fragment();
  controller().work();
  const std::string mover = told("a", "DivvyEvicted").empty() ? right_ : "a";
  const std::string other = node_of(mover == "a" ? right_ : "a");
  cluster_.settle();
  cluster_.room[other] = 0;
  make_anew({mover});
  for (int i = 0; i < 4; ++i) {
    settle_all();
    wait(1min);
  }
  EXPECT_THAT(told("whole", "DivvyMovesStopped"), HasSubstr("does not start on " + other));
  EXPECT_EQ(controller().queue().moves().given_up, 1U);
  // Whoever comes first has what is free.
  settle_all(8);
  EXPECT_TRUE(cluster_.phase(mover + "-2") == "Running" || cluster_.phase("whole") == "Running");
  EXPECT_EQ(evictions(), 1);
}

TEST_F(ClusterQueueMoves, APodThatCouldNotBeEvictedInTimeIsNotEvictedAfterwards) {
  start(Defragmentation::kOn);
  fragment();
  // The API server takes everything else.
  const auto work_without_evictions = [this] {
    for (controller().hear_all();; controller().hear_all()) {
      controller().decide();
      if (controller().actions() == 0) return;
      while (controller().actions() > 0) {
        const bool evicts = controller().queued().front().kind == ActionKind::kEvictPod;
        controller().act(0,
                         evicts ? TestController::Fault::kNotDone : TestController::Fault::kNone);
      }
    }
  };
  for (int i = 0; i < 20 && controller().queue().moves().given_up == 0; ++i) {
    work_without_evictions();
    wait(10s);
  }
  ASSERT_EQ(controller().queue().moves().given_up, 1U);
  EXPECT_THAT(told("whole", "DivvyMovesStopped"), HasSubstr("has not ended in time"));
  for (int i = 0; i < 5; ++i) {
    settle_all();
    wait(1min);
  }
  ASSERT_EQ(evictions(), 0) << "it would go for nobody";
  EXPECT_EQ(cluster_.phase("a"), "Running");
  EXPECT_EQ(cluster_.phase(right_), "Running");
  EXPECT_THAT(condition("a"), HasSubstr("True "));
}

TEST_F(ClusterQueueMoves, NoPodIsMovedThatCameALittleWhileAgo) {
  start(Defragmentation::kOn);
  rules_.defragmentation.least_stay = 2h;
  start();
  fragment();
  settle_all();
  EXPECT_EQ(evictions(), 0);
  wait(90min);
  settle_all();
  EXPECT_EQ(evictions(), 1);
}

TEST_F(ClusterQueueMoves, NoMoreThanSoManyInAnHour) {
  start(Defragmentation::kOn);
  rules_.defragmentation.moves_per_hour = 0;
  start();
  fragment();
  settle_all();
  wait(2h);
  settle_all();
  EXPECT_EQ(evictions(), 0);
}

TEST_F(ClusterQueueMoves, ADaemonSetIsNotMoved) {
  start(Defragmentation::kOn);
  for (const char* const name : {"a", "b"}) {
    testing::TestPod pod{.name = name, .gpu = "0.6"};
    pod.metadata = owned_by("apps/v1", "DaemonSet", "watch");
    pod.metadata["annotations"] = movable();
    cluster_.create_pod(pod);
  }
  settle_all();
  wait(31min);
  create("part", "0.5", movable());
  settle_all();
  wait(31min);
  EXPECT_EQ(evictions(), 0);
}

TEST_F(ClusterQueueMoves, APodOfAGangIsNotMoved) {
  start(Defragmentation::kOn);
  for (const char* const name : {"llm-0", "llm-1"}) {
    testing::TestPod pod{.name = name, .gpu = "0.6"};
    pod.metadata = owned_by("apps/v1", "ReplicaSet", "llm");
    pod.metadata["annotations"] = movable();
    pod.gang = PodGang{"llm", 2, 0};
    cluster_.create_pod(pod);
  }
  settle_all();
  ASSERT_EQ(cluster_.phase("llm-0"), "Running");
  cluster_.finish_pod("llm-0");
  settle_all();
  create("other", "0.3");
  settle_all();
  wait(31min);
  create_alone("whole", "1");
  settle_all();
  wait(2min);
  settle_all();
  for (const std::string& event : events()) EXPECT_NE(event, "DivvyEvicted llm-1");
}

TEST_F(ClusterQueueMoves, AFreshControllerGoesOnFromWhatItFinds) {
  start(Defragmentation::kOn);
  fragment();
  controller().work();
  ASSERT_EQ(evictions(), 1);
  const std::string mover = told("a", "DivvyEvicted").empty() ? right_ : "a";
  start();
  settle_all();
  make_anew({mover});
  settle_all();
  EXPECT_EQ(cluster_.phase("whole"), "Running");
  EXPECT_EQ(cluster_.phase(mover + "-2"), "Running");
}

TEST_F(ClusterQueueMoves, AFreshControllerMovesPodsThatItFinds) {
  start(Defragmentation::kOff);
  fragment();
  start(Defragmentation::kOn);
  controller().work();
  ASSERT_EQ(evictions(), 1);
  const std::string mover = told("a", "DivvyEvicted").empty() ? right_ : "a";
  const std::string other = node_of(mover == "a" ? right_ : "a");
  cluster_.settle();
  make_anew({mover});
  settle_all();
  EXPECT_EQ(cluster_.phase("whole"), "Running");
  EXPECT_EQ(node_of(mover + "-2"), other);
}

TEST_F(ClusterQueueMoves, APodThatFindsAnotherPlaceNeedsNoMoreMoves) {
  start(Defragmentation::kOn);
  fragment();
  controller().work();
  const std::string mover = told("a", "DivvyEvicted").empty() ? right_ : "a";
  cluster_.delete_pod("whole");
  settle_all();
  EXPECT_FALSE(controller().queue().moves().under_way);
  make_anew({mover});
  settle_all();
  EXPECT_EQ(cluster_.phase(mover + "-2"), "Running");
}

TEST_F(ClusterQueueMoves, APlanOfSeveralMovesGoesOnePodAtATime) {
  SimulatedCluster cluster(2, 2);
  rules_.defragmentation.mode = Defragmentation::kOn;
  TestController controller(cluster, 1, rules_);
  const auto settle = [&] {
    for (int i = 0; i < 4; ++i) {
      controller.work();
      cluster.clock().advance(1s);
      cluster.settle();
    }
    controller.work();
  };
  const auto make = [&](const std::string& name, const std::string& gpu, json::object more = {}) {
    testing::TestPod pod{.name = name, .gpu = gpu, .more = std::move(more)};
    pod.metadata = owned_by("apps/v1", "ReplicaSet", "web");
    pod.metadata["annotations"] = movable();
    cluster.create_pod(pod);
  };
  // A half on each GPU of each node.
  for (int i = 0; i < 8; ++i) make(fmt::format("p{}", i), "0.5");
  settle();
  std::set<std::string> gpus;
  std::vector<std::string> stay;
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("p{}", i);
    const auto allocation = read_allocation(*cluster.claim(name));
    const std::string gpu = (*allocation)->slices.front().slice.gpu().str();
    if (gpus.insert(gpu).second) {
      stay.push_back(name);
    } else {
      cluster.finish_pod(name);
    }
  }
  settle();
  ASSERT_EQ(stay.size(), 4U);
  cluster.clock().advance(31min);
  cluster.report_nodes();
  make("pair", "2");
  settle();
  cluster.clock().advance(2min);
  cluster.report_nodes();
  std::set<std::string> gone;
  for (int round = 0; round < 20 && cluster.phase("pair") != "Running"; ++round) {
    controller.work();
    std::size_t on_their_way = 0;
    for (const std::string& name : stay) {
      const auto pod = cluster.pod(name);
      const bool leaves = !pod || !text_at(*pod, {"metadata", "deletionTimestamp"}).empty();
      const bool runs_again = cluster.phase(name + "-2") == "Running";
      if (leaves) gone.insert(name);
      if (leaves && !runs_again) ++on_their_way;
    }
    EXPECT_LE(on_their_way, 1U);
    cluster.clock().advance(1s);
    cluster.settle();
    for (const std::string& name : stay) {
      if (!cluster.pod(name) && !cluster.pod(name + "-2")) make(name + "-2", "0.5");
    }
  }
  EXPECT_EQ(cluster.phase("pair"), "Running");
  EXPECT_EQ(gone.size(), 2U);
  EXPECT_EQ(controller.queue().moves().pods, 2U);
  EXPECT_EQ(controller.queue().moves().finished, 1U);
}

}  // namespace
}  // namespace divvy::kube
