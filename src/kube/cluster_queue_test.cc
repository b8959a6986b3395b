// The controller's queue, signal by signal, against stand-ins for the rest of Kubernetes.
#include "kube/cluster_queue_fixture.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using testing::ClusterQueueTest;
using ::testing::HasSubstr;
using testing::TestController;
using Fault = TestController::Fault;

TEST_F(ClusterQueueTest, PlacesAPodAndReleasesItsGate) {
  cluster_.create_pod({.name = "train", .gpu = "0.3"});
  controller_.work();
  ASSERT_FALSE(node_of("train").empty());
  EXPECT_FALSE(gated("train"));
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("train"), "Running");
  EXPECT_THAT(events(), ::testing::Contains("DivvyPlaced train"));
  wait(2s);
  controller_.work();
  EXPECT_THAT(condition("train"), HasSubstr("True Placed: on node-"));
}

TEST_F(ClusterQueueTest, WritesTheClaimAsTheContractSays) {
  cluster_.create_pod({.name = "two", .gpu = "0.5", .containers = {"left", "right"}});
  controller_.work();
  const auto claim = cluster_.claim("two");
  ASSERT_TRUE(claim);
  const json::object& owner = array_at(*claim, {"metadata", "ownerReferences"}).at(0).as_object();
  EXPECT_EQ(text_at(owner, {"uid"}), text_at(*cluster_.pod("two"), {"metadata", "uid"}));
  EXPECT_TRUE(true_at(owner, {"controller"}));
  EXPECT_EQ(array_at(*claim, {"metadata", "finalizers"}).at(0), json::value(kClaimFinalizer));
  const json::array& requests = array_at(*claim, {"spec", "devices", "requests"});
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(text_at(requests.at(1).as_object(), {"name"}), "right");
  const auto allocation = read_allocation(*claim);
  ASSERT_TRUE(allocation && *allocation);
  ASSERT_EQ((*allocation)->slices.size(), 2U);
  EXPECT_EQ((*allocation)->slices[0].request, "left");
  EXPECT_EQ((*allocation)->slices[0].slice.share(), Share(500));
  EXPECT_NE((*allocation)->slices[0].device, (*allocation)->slices[1].device);
  EXPECT_FALSE(text_at(*claim, {"status", "allocation", "allocationTimestamp"}).empty());
  EXPECT_TRUE(array_at(*claim, {"status", "reservedFor"}).empty());
}

TEST_F(ClusterQueueTest, WritesAllAllocationsOfAPassBeforeItRemovesAGate) {
  for (const char* const name : {"a", "b", "c"}) cluster_.create_pod({.name = name, .gpu = "0.5"});
  controller_.work();
  const auto& done = controller_.done;
  const auto first_gate = std::ranges::find(done, ActionKind::kRemoveGate);
  ASSERT_NE(first_gate, done.end());
  EXPECT_EQ(std::count(done.begin(), first_gate, ActionKind::kWriteAllocation), 3);
  EXPECT_EQ(std::count(first_gate, done.end(), ActionKind::kRemoveGate), 3);
}

TEST_F(ClusterQueueTest, APodWaitsUntilAnotherHasLetGo) {
  run("first", "1");
  run("second", "1");
  cluster_.create_pod({.name = "third", .gpu = "1"});
  controller_.work();
  EXPECT_TRUE(gated("third"));
  EXPECT_THAT(condition("third"), HasSubstr("False Full: "));
  EXPECT_THAT(events(), ::testing::Contains("DivvyQueued third"));
  const auto why = controller_.queue().explain("team-a", "third", cluster_.now());
  ASSERT_TRUE(why);
  EXPECT_FALSE(why->placed);
  EXPECT_EQ(why->wait.kind, jobs::WaitKind::kFull);
  cluster_.finish_pod("first");
  cluster_.settle();
  controller_.work();
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("third"), "Running");
}

TEST_F(ClusterQueueTest, AnAllocationThatKubeSchedulerClearedIsPlacedElsewhere) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  controller_.work();
  const std::string first = node_of("train");
  cluster_.room[first] = 0;
  cluster_.schedule();
  ASSERT_EQ(node_of("train"), "");
  controller_.work();
  EXPECT_NE(node_of("train"), "");
  EXPECT_NE(node_of("train"), first);
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("train"), "Running");
}

TEST_F(ClusterQueueTest, ANodeThatRefusedIsTriedAgainLater) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  controller_.work();
  const std::string first = node_of("train");
  const std::string second = first == "node-0" ? "node-1" : "node-0";
  cluster_.set_node(second, true, true);
  cluster_.room[first] = 0;
  cluster_.schedule();
  controller_.work();
  EXPECT_EQ(node_of("train"), "");
  cluster_.room[first] = 1;
  wait(61s);
  controller_.work();
  EXPECT_EQ(node_of("train"), first);
}

TEST_F(ClusterQueueTest, APodThatStaysUnschedulableIsTakenBack) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  controller_.work();
  const std::string first = node_of("train");
  for (auto& [node, room] : cluster_.room) room = 0;
  cluster_.schedule();
  controller_.work();
  EXPECT_EQ(node_of("train"), first) << "kube-scheduler may find room for it yet";
  wait(31s);
  controller_.work();
  EXPECT_THAT(controller_.done, ::testing::Contains(ActionKind::kClearAllocation));
  EXPECT_NE(node_of("train"), first);
}

TEST_F(ClusterQueueTest, ATakeBackThatComesTooLateLeavesThePodWhereItRuns) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  controller_.work();
  const std::string first = node_of("train");
  for (auto& [node, room] : cluster_.room) room = 0;
  cluster_.schedule();
  wait(31s);
  controller_.hear_all();
  controller_.decide();
  ASSERT_EQ(controller_.queued().front().kind, ActionKind::kClearAllocation);
  cluster_.room[first] = 1;
  cluster_.schedule();  // reserves and binds
  controller_.work();
  cluster_.settle();
  EXPECT_EQ(node_of("train"), first);
  EXPECT_EQ(cluster_.phase("train"), "Running");
}

TEST_F(ClusterQueueTest, APodThatIsBoundWithoutAllocationGetsOneForThatNode) {
  cluster_.create_pod({.name = "pinned", .gpu = "0.5", .node = "node-1"});
  controller_.work();
  EXPECT_EQ(node_of("pinned"), "node-1");
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("pinned"), "Running");
}

TEST_F(ClusterQueueTest, APodThatIsBoundWhereNothingIsFreeIsToldWhy) {
  run("first", "1");
  const std::string full = node_of("first");
  cluster_.create_pod({.name = "pinned", .gpu = "0.5", .node = full});
  controller_.work();
  EXPECT_EQ(node_of("pinned"), "");
  EXPECT_THAT(condition("pinned"), HasSubstr("False BoundWithoutSlice: it is bound to " + full));
  EXPECT_THAT(events(), ::testing::Contains("DivvyNotPlaced pinned"));
}

TEST_F(ClusterQueueTest, APodThatIsDeletedWhileItWaitsLeavesTheQueue) {
  run("first", "1");
  run("second", "1");
  cluster_.create_pod({.name = "third", .gpu = "1"});
  controller_.work();
  EXPECT_EQ(controller_.queue().waiting(), 1U);
  cluster_.delete_pod("third");
  controller_.work();
  EXPECT_EQ(controller_.queue().waiting(), 0U);
  EXPECT_FALSE(cluster_.claim("third"));
}

TEST_F(ClusterQueueTest, ASliceOfAPodThatWasDeletedByForceIsNotFreeUntilItsNodeSaysSo) {
  run("first", "1");
  const std::string node = node_of("first");
  cluster_.set_node(node == "node-0" ? "node-1" : "node-0", true, true);
  cluster_.delete_pod("first", true);
  cluster_.manage();
  cluster_.manage();
  EXPECT_FALSE(cluster_.claim("first"));
  cluster_.create_pod({.name = "next", .gpu = "1"});
  controller_.work();
  EXPECT_EQ(node_of("next"), "");
  wait(10s);  // the node is heard of, and still holds it
  controller_.work();
  EXPECT_EQ(node_of("next"), "");
  cluster_.run_kubelets();
  wait(10s);
  controller_.work();
  EXPECT_EQ(node_of("next"), node);
}

TEST_F(ClusterQueueTest, APodThatWentWithoutAWordKeepsItsSliceUntilItsNodeIsHeardOf) {
  cluster_.create_pod({.name = "first", .gpu = "1"});
  controller_.work();
  const std::string node = node_of("first");
  cluster_.set_node(node == "node-0" ? "node-1" : "node-0", true, true);
  cluster_.schedule();
  cluster_.run_kubelets();  // the node holds it, and has not told
  controller_.work();
  cluster_.delete_pod("first", true);
  cluster_.manage();
  cluster_.manage();
  cluster_.create_pod({.name = "next", .gpu = "1"});
  controller_.work();
  EXPECT_EQ(node_of("next"), "");
  cluster_.run_kubelets();
  wait(10s);
  controller_.work();
  EXPECT_EQ(node_of("next"), node);
}

TEST_F(ClusterQueueTest, ANodeWhoseAgentIsSilentGetsNoNewPods) {
  run("first", "0.2");
  cluster_.clock().advance(61s);
  cluster_.create_pod({.name = "next", .gpu = "0.2"});
  controller_.work();
  EXPECT_EQ(node_of("next"), "");
  const auto why = controller_.queue().explain("team-a", "next", cluster_.now());
  EXPECT_THAT(why->wait.details, HasSubstr("its node agent was last heard of at"));
  EXPECT_EQ(cluster_.phase("first"), "Running");
  cluster_.report_nodes();
  controller_.work();
  EXPECT_NE(node_of("next"), "");
}

TEST_F(ClusterQueueTest, NodesThatAreCordonedNotReadyOrGoneGetNoNewPods) {
  cluster_.set_node("node-0", true, true);
  cluster_.create_pod({.name = "a", .gpu = "0.2"});
  controller_.work();
  EXPECT_EQ(node_of("a"), "node-1");
  cluster_.set_node("node-0", true);
  cluster_.set_node("node-1", false);
  cluster_.create_pod({.name = "b", .gpu = "0.2"});
  controller_.work();
  EXPECT_EQ(node_of("b"), "node-0");
  cluster_.remove_node("node-0");
  cluster_.create_pod({.name = "c", .gpu = "0.2"});
  controller_.work();
  EXPECT_EQ(node_of("c"), "");
}

TEST_F(ClusterQueueTest, AWriteWhoseAnswerIsLostIsRepeatedAndDoneOnce) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  for (int i = 0; i < 20; ++i) {
    controller_.hear_all();
    controller_.decide();
    while (controller_.actions() > 0) controller_.act(0, Fault::kAnswerLost);
    wait(1s);
  }
  wait(40s);
  controller_.work();
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("train"), "Running");
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kCreateClaim), 1);
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kWriteAllocation), 1);
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kRemoveGate), 1);
}

TEST_F(ClusterQueueTest, AWriteOfWhichNothingIsKnownKeepsItsPlace) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  cluster_.set_node("node-1", true, true);
  controller_.hear_all();
  controller_.decide();
  controller_.act(0);  // the claim
  controller_.decide();
  ASSERT_EQ(controller_.queued().front().kind, ActionKind::kWriteAllocation);
  controller_.act(0, Fault::kNotDone);
  cluster_.create_pod({.name = "other", .gpu = "1"});
  controller_.work();
  EXPECT_EQ(node_of("other"), "");
  cluster_.clock().advance(1s);
  controller_.work();
  EXPECT_EQ(node_of("train"), "node-0");
  EXPECT_EQ(node_of("other"), "");
}

TEST_F(ClusterQueueTest, AConflictIsReadAndDecidedAgain) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  controller_.hear_all();
  controller_.decide();
  controller_.act(0);
  controller_.decide();
  // Somebody else writes the claim.
  json::object claim = *cluster_.claim("train");
  claim["metadata"].as_object()["labels"] = json::object{{"by", "somebody"}};
  ASSERT_TRUE(cluster_.api().replace(claim_path("team-a", "divvy-train"), claim));
  controller_.work();
  EXPECT_THAT(controller_.done, ::testing::Contains(ActionKind::kReadClaim));
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("train"), "Running");
}

TEST_F(ClusterQueueTest, AClaimOfAnotherPodIsNotTaken) {
  run("first", "0.5");
  const std::string before = json::serialize(object_at(*cluster_.claim("first"), {"status"}));
  const json::object stolen{{"name", kPodClaim}, {"resourceClaimName", "divvy-first"}};
  cluster_.create_pod({.name = "thief", .gpu = "0.5"});
  json::object pod = *cluster_.pod("thief");
  pod["spec"].as_object()["resourceClaims"] = json::array{stolen};
  cluster_.api().store().put(*ResourcePath::parse("/api/v1/namespaces/team-a/pods"), pod);
  controller_.work();
  EXPECT_TRUE(gated("thief"));
  EXPECT_EQ(json::serialize(object_at(*cluster_.claim("first"), {"status"})), before);
  EXPECT_THAT(events(), ::testing::Contains("DivvyNotPlaced thief"));
}

TEST_F(ClusterQueueTest, APodWithOtherGatesWaitsForThem) {
  const json::object other{{"name", "kueue.x-k8s.io/admission"}};
  cluster_.create_pod(
      {.name = "train", .more = json::object{{"schedulingGates", json::array{other}}}});
  controller_.work();
  EXPECT_EQ(node_of("train"), "");
  const json::array patch{json::object{{"op", "remove"}, {"path", "/spec/schedulingGates/1"}}};
  ASSERT_TRUE(cluster_.api().patch(pod_path("team-a", "train"), PatchType::kJson, patch));
  controller_.work();
  EXPECT_NE(node_of("train"), "");
}

TEST_F(ClusterQueueTest, ASelectorAndTaintsOfNodesAreHeeded) {
  const auto put_node = [this](const json::object& labels, const json::array& taints) {
    const json::object ready{{"type", "Ready"}, {"status", "True"}};
    cluster_.api().store().put(*ResourcePath::parse("/api/v1/nodes"),
                               {{"metadata", json::object{{"name", "node-0"}, {"labels", labels}}},
                                {"spec", json::object{{"taints", taints}}},
                                {"status", json::object{{"conditions", json::array{ready}}}}});
  };
  const json::object taint{{"key", "team"}, {"value", "b"}, {"effect", "NoSchedule"}};
  put_node({{"disk", "fast"}}, {taint});
  cluster_.create_pod({.name = "no", .more = {{"nodeSelector", {{"disk", "fast"}}}}});
  const json::object toleration{{"key", "team"}, {"operator", "Exists"}};
  cluster_.create_pod(
      {.name = "yes",
       .more = {{"nodeSelector", {{"disk", "fast"}}}, {"tolerations", json::array{toleration}}}});
  controller_.work();
  EXPECT_EQ(node_of("no"), "");
  EXPECT_EQ(node_of("yes"), "node-0");
  put_node({{"disk", "fast"}}, {});
  controller_.work();
  EXPECT_EQ(node_of("no"), "node-0");
}

TEST_F(ClusterQueueTest, TheNamespaceSaysWhichQueueItIs) {
  jobs::Settings settings;
  jobs::QueueSettings small;
  small.path = "small";
  small.quota.share = Share(500);
  small.may_borrow = false;
  settings.queues = {small};
  ASSERT_TRUE(controller_.queue().set_settings(settings));
  const json::object labels{{kQueueLabel, "small"}};
  cluster_.api().store().put(*ResourcePath::parse("/api/v1/namespaces"),
                             {{"metadata", json::object{{"name", "team-a"}, {"labels", labels}}}});
  run("first", "0.5");
  cluster_.create_pod({.name = "second", .gpu = "0.5"});
  controller_.work();
  EXPECT_EQ(node_of("second"), "");
  EXPECT_THAT(condition("second"), HasSubstr("False Quota: "));
}

TEST_F(ClusterQueueTest, AQueueThatOnlyANamespaceNamesIsThere) {
  const json::object labels{{kQueueLabel, "research"}};
  cluster_.api().store().put(*ResourcePath::parse("/api/v1/namespaces"),
                             {{"metadata", json::object{{"name", "team-a"}, {"labels", labels}}}});
  run("train", "0.5");
}

TEST_F(ClusterQueueTest, ARequestThatCannotBeReadIsToldOnThePod) {
  cluster_.create_pod({.name = "odd"});
  json::object pod = *cluster_.pod("odd");
  pod["metadata"].as_object()["annotations"].as_object()[kRequestAnnotation] = "{\"version\": 2}";
  cluster_.api().store().put(*ResourcePath::parse("/api/v1/namespaces/team-a/pods"), pod);
  controller_.work();
  EXPECT_THAT(condition("odd"),
              HasSubstr("False Refused: metadata.annotations[\"divvy.dev/request\"]: version"));
  EXPECT_TRUE(gated("odd"));
}

TEST_F(ClusterQueueTest, AFreshControllerHoldsTheSameAndMovesNothing) {
  run("first", "0.5");
  run("second", "1");
  cluster_.create_pod({.name = "waits", .gpu = "1"});
  controller_.work();
  TestController fresh(cluster_, 2);
  fresh.work();
  const auto before = controller_.queue().bookings();
  const auto after = fresh.queue().bookings();
  ASSERT_EQ(before.size(), 2U);
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [claim, booking] : before) {
    ASSERT_TRUE(after.contains(claim));
    EXPECT_EQ(after.at(claim).node, booking.node);
    EXPECT_EQ(after.at(claim).slices, booking.slices);
  }
  EXPECT_THAT(fresh.done, ::testing::Not(::testing::Contains(ActionKind::kWriteAllocation)));
  EXPECT_THAT(fresh.done, ::testing::Not(::testing::Contains(ActionKind::kClearAllocation)));
  EXPECT_EQ(fresh.queue().waiting(), 1U);
}

TEST_F(ClusterQueueTest, AFreshControllerRemovesTheGateThatTheOldOneDidNot) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  controller_.hear_all();
  controller_.decide();
  controller_.act(0);
  controller_.decide();
  controller_.act(0);
  ASSERT_NE(node_of("train"), "");
  ASSERT_TRUE(gated("train"));
  TestController fresh(cluster_, 2);
  fresh.work();
  EXPECT_FALSE(gated("train"));
}

TEST_F(ClusterQueueTest, WhatTwoControllersWroteAtOnceIsTakenBackFromTheLaterOne) {
  cluster_.set_node("node-1", true, true);
  cluster_.create_pod({.name = "a", .gpu = "0.7"});
  wait(1s);
  cluster_.create_pod({.name = "b", .gpu = "0.7"});
  controller_.work();
  // As another controller would have written it that has not heard of the first claim.
  ASSERT_EQ(node_of("a"), "node-0");
  ASSERT_EQ(node_of("b"), "");
  json::object claim = *cluster_.claim("a");
  const json::object owner{{"apiVersion", "v1"},
                           {"kind", "Pod"},
                           {"name", "b"},
                           {"uid", text_at(*cluster_.pod("b"), {"metadata", "uid"})},
                           {"controller", true}};
  json::object metadata{{"name", "divvy-b"},
                        {"namespace", "team-a"},
                        {"finalizers", json::array{kClaimFinalizer}},
                        {"ownerReferences", json::array{owner}}};
  Allocation allocation = **read_allocation(claim);
  allocation.at += 5s;
  allocation.slices[0].device = "s-of-the-other";
  cluster_.api().store().put(
      *ResourcePath::parse("/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims"),
      {{"metadata", std::move(metadata)},
       {"spec", claim.at("spec")},
       {"status", json::object{{"allocation", write_allocation(allocation)}}}});
  ASSERT_TRUE(cluster_.overbooked_claims());
  controller_.work();
  EXPECT_FALSE(cluster_.overbooked_claims());
  EXPECT_EQ(node_of("a"), "node-0");
  EXPECT_EQ(node_of("b"), "");
}

TEST_F(ClusterQueueTest, AWriteThatIsHeardOfBeforeItsAnswerCountsOnce) {
  cluster_.set_node("node-1", true, true);
  cluster_.create_pod({.name = "first", .gpu = "0.5"});
  controller_.work();
  cluster_.create_pod({.name = "second", .gpu = "0.5"});
  const auto decide = [this] {
    controller_.hear_all();
    controller_.decide();
  };
  for (decide(); controller_.queued().front().kind != ActionKind::kWriteAllocation; decide()) {
    controller_.act(0);
  }
  controller_.act(0, Fault::kAnswerLate);
  decide();
  for (const Action& action : controller_.queued()) {
    EXPECT_NE(action.kind, ActionKind::kClearAllocation) << "the GPU has room for both";
  }
  controller_.work();
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("first"), "Running");
  EXPECT_EQ(cluster_.phase("second"), "Running");
}

// kube-scheduler read the claim, and bound the pod after the claim had been placed anew.
TEST_F(ClusterQueueTest, APodThatIsBoundToAnotherNodeThanItsSliceGetsOneThere) {
  cluster_.create_pod({.name = "train", .gpu = "0.5"});
  controller_.work();
  const std::string placed = node_of("train");
  const std::string other = placed == "node-0" ? "node-1" : "node-0";
  ASSERT_TRUE(cluster_.api().create("/api/v1/namespaces/team-a/pods/train/binding",
                                    {{"target", json::object{{"kind", "Node"}, {"name", other}}}}));
  cluster_.manage();  // reserves it for the bound pod
  controller_.work();
  EXPECT_EQ(node_of("train"), "");
  wait(2s);
  controller_.work();
  EXPECT_EQ(node_of("train"), other);
  EXPECT_THAT(events(), ::testing::Contains("DivvyNotPlaced train"));
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("train"), "Running");
}

TEST_F(ClusterQueueTest, NothingIsGivenToAPodWhoseEndIsHeardOfAfterItsClaimWasCleared) {
  run("first");
  const std::string said = condition("first");
  cluster_.finish_pod("first");
  cluster_.settle();
  ASSERT_EQ(node_of("first"), "");
  controller_.hear(static_cast<std::size_t>(ObjectKind::kClaim), SIZE_MAX);
  controller_.decide();
  EXPECT_EQ(controller_.actions(), 0U);
  controller_.work();
  wait(3s);
  controller_.work();
  EXPECT_EQ(node_of("first"), "");
  EXPECT_EQ(condition("first"), said) << "what it had";
}

TEST_F(ClusterQueueTest, APodWhoseTimeIsUpIsEvicted) {
  jobs::Settings settings;
  settings.time.usual = std::chrono::hours(1);
  ASSERT_TRUE(controller_.queue().set_settings(settings));
  run("train", "1");
  wait(3601s);
  controller_.work();
  EXPECT_THAT(controller_.done, ::testing::Contains(ActionKind::kEvictPod));
  cluster_.settle();
  controller_.work();
  wait(10s);  // its node is heard of
  controller_.work();
  EXPECT_FALSE(cluster_.pod("train"));
  EXPECT_EQ(controller_.queue().bookings().size(), 0U);
}

TEST_F(ClusterQueueTest, APodOnAGpuThatFailsIsEvictedAndTheNextOneGoesElsewhere) {
  run("train", "1");
  const std::string failed = node_of("train");
  cluster_.fail_gpu(failed, 0);
  cluster_.report_nodes();
  controller_.work();
  EXPECT_THAT(controller_.done, ::testing::Contains(ActionKind::kEvictPod));
  EXPECT_THAT(events(), ::testing::Contains("DivvyEvicted train"));
  cluster_.settle();
  wait(10s);
  controller_.work();
  ASSERT_FALSE(cluster_.pod("train"));
  run("again", "1");
  EXPECT_NE(node_of("again"), failed);
}

TEST_F(ClusterQueueTest, AnEvictionThatADisruptionBudgetRefusesIsAskedForAgain) {
  run("train", "1");
  cluster_.fail_gpu(node_of("train"), 0);
  cluster_.report_nodes();
  controller_.hear_all();
  controller_.decide();
  while (controller_.actions() > 0) {
    const bool evicts = controller_.queued().front().kind == ActionKind::kEvictPod;
    controller_.act(0, evicts ? Fault::kNotDone : Fault::kNone);
  }
  ASSERT_EQ(cluster_.phase("train"), "Running");
  wait(60s);
  controller_.work();
  cluster_.settle();
  EXPECT_FALSE(cluster_.pod("train"));
}

TEST_F(ClusterQueueTest, APlaceOnAGpuThatFailsBeforeAnybodyTookItIsGivenUp) {
  cluster_.create_pod({.name = "train", .gpu = "1"});
  controller_.work();
  const std::string failed = node_of("train");
  ASSERT_FALSE(failed.empty());
  cluster_.fail_gpu(failed, 0);
  cluster_.report_nodes();
  controller_.work();
  EXPECT_FALSE(node_of("train").empty());
  EXPECT_NE(node_of("train"), failed);
}

TEST_F(ClusterQueueTest, PodsStayOnAFailedGpuWhereThePolicySaysSo) {
  TestController patient(cluster_, 2, {.evict_from_failed_gpus = false});
  cluster_.create_pod({.name = "train", .gpu = "1"});
  patient.work();
  cluster_.settle();
  cluster_.fail_gpu(node_of("train"), 0);
  cluster_.report_nodes();
  patient.work();
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("train"), "Running");
}

TEST_F(ClusterQueueTest, NothingIsKeptOfPodsThatAreGone) {
  const std::size_t before = controller_.queue().entries_kept();
  for (int i = 0; i < 5; ++i) {
    run("train", "1");
    cluster_.delete_pod("train");
    cluster_.settle();
    controller_.work();
    cluster_.settle();
    controller_.work();
    wait(120s);
    controller_.work();
  }
  EXPECT_EQ(controller_.queue().entries_kept(), before);
  EXPECT_TRUE(cluster_.api().list("/apis/resource.k8s.io/v1/resourceclaims").empty());
}

}  // namespace
}  // namespace divvy::kube
