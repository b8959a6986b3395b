// Pods that go by slots: what they were given stands in the pod itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "kube/cluster_testing.h"
#include "kube/json_view.h"
#include "kube/object_names.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::SimulatedCluster;
using testing::TestController;
using Fault = TestController::Fault;

class ClusterQueueSlots : public ::testing::Test {
 protected:
  void create(const std::string& name, const std::string& gpu = "0.5", const std::string& node = {},
              json::object more = {}) {
    cluster_.create_pod({.name = name, .gpu = gpu, .node = node, .more = more, .slots = true});
  }
  std::optional<Allocation> allocation(const std::string& pod) {
    return *read_allocation_annotation(*cluster_.pod(pod));
  }
  bool gated(const std::string& pod) {
    return !array_at(*cluster_.pod(pod), {"spec", "schedulingGates"}).empty();
  }
  const json::array& terms(const json::object& pod) {
    return array_at(pod, {"spec", "affinity", "nodeAffinity",
                          "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  }
  std::string condition(const std::string& pod) {
    const json::object document = *cluster_.pod(pod);
    for (const json::value& one : array_at(document, {"status", "conditions"})) {
      if (text_at(one.as_object(), {"type"}) != kPlacedCondition) continue;
      return fmt::format("{}: {}", text_at(one.as_object(), {"reason"}),
                         text_at(one.as_object(), {"message"}));
    }
    return "";
  }
  std::size_t count(ActionKind kind) {
    return static_cast<std::size_t>(std::ranges::count(controller_.done, kind));
  }
  // Carries out what is urgent, the first of it so.
  void decide_and_act(Fault fault) {
    controller_.hear_all();
    controller_.decide();
    for (std::size_t i = 0; i < controller_.actions(); ++i) {
      if (controller_.queued()[i].kind != ActionKind::kPlacePod) continue;
      controller_.act(i, fault);
      return;
    }
    FAIL() << "no pod is placed";
  }

  SimulatedCluster cluster_{1, 1};
  TestController controller_{cluster_, 1};
};

TEST_F(ClusterQueueSlots, APodIsPlacedByOnePatch) {
  create("a", "0.3");
  controller_.work();
  EXPECT_FALSE(gated("a"));
  const auto given = allocation("a");
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(given->node, "node-0");
  ASSERT_EQ(given->slices.size(), 1U);
  EXPECT_EQ(given->slices[0].request, "main");
  EXPECT_EQ(given->slices[0].slice.share(), Share(300));
  EXPECT_EQ(json::serialize(terms(*cluster_.pod("a"))),
            R"([{"matchFields":[{"key":"metadata.name","operator":"In","values":["node-0"]}]}])");
  EXPECT_EQ(count(ActionKind::kPlacePod), 1U);
  EXPECT_TRUE(cluster_.api().list("/apis/resource.k8s.io/v1/resourceclaims").empty());
  cluster_.settle();
  controller_.work();
  EXPECT_EQ(cluster_.phase("a"), "Running");
  EXPECT_THAT(condition("a"), HasSubstr("Placed: on node-0: 0.3 of gpu0"));
}

TEST_F(ClusterQueueSlots, EveryTermOfItsOwnAffinityIsPinned) {
  const json::value own = json::parse(
      R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}, {}]}},
          "podAffinity": {}})");
  create("a", "0.3", "", {{"affinity", own}});
  controller_.work();
  EXPECT_EQ(json::serialize(terms(*cluster_.pod("a"))),
            R"([{"matchExpressions":[{"key":"zone","operator":"DoesNotExist"}],)"
            R"("matchFields":[{"key":"metadata.name","operator":"In","values":["node-0"]}]},{}])");
  EXPECT_TRUE(object_at(*cluster_.pod("a"), {"spec", "affinity"}).contains("podAffinity"));
}

TEST_F(ClusterQueueSlots, AnAffinityToOtherNodesIsHeeded) {
  const json::value elsewhere = json::parse(
      R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}})");
  create("a", "0.3", "", {{"affinity", elsewhere}});
  controller_.work();
  EXPECT_TRUE(gated("a"));
}

TEST_F(ClusterQueueSlots, ASliceIsFreeWhenItsPodHasEndedAndItsNodeLetGo) {
  create("a", "1");
  controller_.work();
  cluster_.settle();
  create("b", "1");
  controller_.work();
  EXPECT_TRUE(gated("b"));
  cluster_.finish_pod("a");
  cluster_.run_kubelets();
  ASSERT_EQ(cluster_.phase("a"), "Succeeded");
  controller_.work();
  EXPECT_TRUE(gated("b")) << "the node still has it";
  cluster_.run_kubelets();
  ASSERT_EQ(cluster_.held(), 0U);
  controller_.work();
  EXPECT_TRUE(gated("b")) << "nobody has heard of it yet";
  cluster_.clock().advance(10s);
  cluster_.report_nodes();
  controller_.work();
  EXPECT_FALSE(gated("b"));
}

TEST_F(ClusterQueueSlots, ADeletedPodHoldsItsSliceUntilItsNodeLetGo) {
  create("a", "1");
  controller_.work();
  cluster_.settle();
  create("b", "1");
  cluster_.delete_pod("a", true);
  controller_.work();
  EXPECT_TRUE(gated("b"));
  cluster_.run_kubelets();
  cluster_.clock().advance(10s);
  cluster_.report_nodes();
  controller_.work();
  EXPECT_FALSE(gated("b"));
}

// The pod was placed, ran, ended and was released between two rounds of the controller: it hears of
// all of it at once. It held on to the slice, which a controller that was started anew did not.
TEST_F(ClusterQueueSlots, AReportThatCameWithTheEndOfAPodIsTheWordOfItsNode) {
  create("a", "1");
  controller_.work();
  cluster_.finish_pod("a");
  cluster_.settle();
  ASSERT_EQ(cluster_.phase("a"), "Succeeded");
  ASSERT_EQ(cluster_.held(), 0U);
  cluster_.clock().advance(10s);
  cluster_.report_nodes();
  controller_.work();
  TestController fresh(cluster_, 2);
  fresh.work();
  EXPECT_TRUE(fresh.queue().bookings().empty());
  EXPECT_TRUE(controller_.queue().bookings().empty());
  create("b", "1");
  controller_.work();
  EXPECT_FALSE(gated("b"));
}

TEST_F(ClusterQueueSlots, AFreshControllerHoldsTheSame) {
  create("a", "0.5");
  create("b", "0.5");
  controller_.work();
  create("c", "0.5");
  TestController fresh(cluster_, 2);
  fresh.work();
  EXPECT_EQ(fresh.queue().bookings().size(), 2U);
  EXPECT_TRUE(gated("c"));
  EXPECT_EQ(std::ranges::count(fresh.done, ActionKind::kPlacePod), 0);
}

TEST_F(ClusterQueueSlots, APlaceWhoseAnswerIsLostIsFoundInThePod) {
  create("a", "1");
  decide_and_act(Fault::kAnswerLost);
  create("b", "1");
  // The word of the change has not come, so the same is written once more.
  cluster_.clock().advance(1s);
  controller_.decide();
  controller_.work();
  EXPECT_FALSE(gated("a"));
  EXPECT_TRUE(gated("b"));
  EXPECT_EQ(controller_.queue().bookings().size(), 1U);
}

TEST_F(ClusterQueueSlots, APlaceThatIsRefusedIsDecidedAgain) {
  create("a", "1");
  controller_.hear_all();
  controller_.decide();
  // Another controller was faster.
  TestController other(cluster_, 2);
  other.work();
  const auto given = allocation("a");
  ASSERT_TRUE(given.has_value());
  controller_.work();
  EXPECT_EQ(allocation("a"), given);
  EXPECT_EQ(controller_.queue().bookings().size(), 1U);
}

TEST_F(ClusterQueueSlots, APodThatStaysUnschedulableIsToldSo) {
  cluster_.room["node-0"] = 0;
  create("a");
  controller_.work();
  cluster_.schedule();
  cluster_.clock().advance(31s);
  cluster_.report_nodes();
  controller_.work();
  EXPECT_THAT(condition("a"), HasSubstr("Unschedulable: on node-0"));
  EXPECT_THAT(condition("a"), HasSubstr("cannot be placed again: delete it"));
  EXPECT_TRUE(allocation("a").has_value());
  cluster_.room["node-0"] = 1;
  cluster_.settle();
  controller_.work();
  EXPECT_EQ(cluster_.phase("a"), "Running");
  EXPECT_THAT(condition("a"), HasSubstr("Placed: on node-0"));
  EXPECT_EQ(condition("a").find("cannot"), std::string::npos);
}

TEST_F(ClusterQueueSlots, APodThatWasMadeForANodeGetsItsSlicesThere) {
  create("a", "0.5", "node-0");
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("a"), "Pending");
  controller_.work();
  ASSERT_TRUE(allocation("a").has_value());
  EXPECT_TRUE(terms(*cluster_.pod("a")).empty());
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("a"), "Running");
}

TEST_F(ClusterQueueSlots, AnAllocationBesideTheGateIsNobodysWord) {
  create("a", "1");
  json::object pod = *cluster_.pod("a");
  Allocation forged{.node = "node-0", .slices = {}, .at = {}};
  forged.slices.push_back(
      {"main", "s-forged",
       *model::Slice::create(*model::GpuUuid::parse("GPU-00000000-0000-0000-0000-000000000000"),
                             gib(1), Share(1000), model::ShareKind::kGuarantee)});
  pod["metadata"].as_object()["annotations"].as_object()[kAllocationAnnotation] =
      write_allocation_annotation(forged);
  ASSERT_TRUE(cluster_.api().replace(pod_path("team-a", "a"), pod));
  controller_.work();
  ASSERT_TRUE(allocation("a").has_value());
  EXPECT_NE(allocation("a")->slices[0].device, "s-forged");
}

}  // namespace
}  // namespace divvy::kube
