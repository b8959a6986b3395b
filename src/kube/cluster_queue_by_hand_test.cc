// Claims that people wrote, and the pods that refer to them.
#include "kube/cluster_queue_fixture.h"

namespace divvy::kube {
namespace {

using namespace std::chrono_literals;
using testing::ClusterQueueTest;
using ::testing::HasSubstr;

TEST_F(ClusterQueueTest, AClaimWrittenByHandIsAllocatedWhenAPodRefersToIt) {
  cluster_.create_claim("mine", "0.3");
  controller_.work();
  EXPECT_TRUE(controller_.done.empty());
  cluster_.create_pod({.name = "train", .claim = "mine"});
  controller_.work();
  const auto allocation = read_allocation(*cluster_.claim("train"));
  ASSERT_TRUE(allocation && *allocation);
  ASSERT_EQ((*allocation)->slices.size(), 1U);
  EXPECT_EQ((*allocation)->slices[0].request, "gpu");
  EXPECT_EQ((*allocation)->slices[0].slice.share(), Share(300));
  EXPECT_EQ(array_at(*cluster_.claim("train"), {"metadata", "finalizers"}).size(), 1U);
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("train"), "Running");
  EXPECT_THAT(events(), ::testing::Contains("DivvyPlaced train"));
}

TEST_F(ClusterQueueTest, APodMayComeBeforeTheClaimThatItRefersTo) {
  cluster_.create_pod({.name = "train", .claim = "mine"});
  controller_.work();
  cluster_.create_claim("mine", "1");
  controller_.work();
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("train"), "Running");
}

TEST_F(ClusterQueueTest, AClaimWrittenByHandWaitsItsTurnAndSaysWhy) {
  run("first", "1");
  run("second", "1");
  cluster_.create_claim("mine", "0.5");
  cluster_.create_pod({.name = "third", .claim = "mine"});
  controller_.work();
  EXPECT_EQ(node_of("third"), "");
  EXPECT_THAT(condition("third"), HasSubstr("False Full: "));
  cluster_.finish_pod("first");
  cluster_.settle();
  controller_.work();
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("third"), "Running");
}

TEST_F(ClusterQueueTest, AClaimWrittenByHandIsFreeWhenItsPodHasEndedAndTheNextPodGetsItAgain) {
  cluster_.create_claim("mine", "1");
  cluster_.create_pod({.name = "first", .claim = "mine"});
  controller_.work();
  cluster_.settle();
  ASSERT_EQ(cluster_.phase("first"), "Running");
  cluster_.finish_pod("first");
  cluster_.settle();
  wait(10s);
  controller_.work();
  EXPECT_EQ(controller_.queue().bookings().size(), 0U);
  cluster_.create_pod({.name = "second", .claim = "mine"});
  controller_.work();
  cluster_.settle();
  EXPECT_EQ(cluster_.phase("second"), "Running");
  EXPECT_EQ(controller_.queue().bookings().size(), 1U);
}

TEST_F(ClusterQueueTest, AClaimThatCannotBeMeantIsToldAtThePodThatRefersToIt) {
  cluster_.create_claim("mine", "lots");
  cluster_.create_pod({.name = "train", .claim = "mine"});
  controller_.work();
  EXPECT_THAT(condition("train"), HasSubstr("spec.devices.config[0].opaque.parameters.gpu: "));
}

TEST_F(ClusterQueueTest, NothingIsKeptOfPodsThatReferredToClaims) {
  const std::size_t before = controller_.queue().entries_kept();
  cluster_.create_claim("mine", "1");
  for (const char* const name : {"a", "b"}) cluster_.create_pod({.name = name, .claim = "mine"});
  controller_.work();
  cluster_.settle();
  controller_.work();
  for (const char* const name : {"a", "b"}) cluster_.delete_pod(name);
  cluster_.settle();
  wait(60s);
  controller_.work();
  static_cast<void>(cluster_.api().remove(claim_path("team-a", "mine"), {}));
  cluster_.settle();
  controller_.work();
  wait(3600s);
  controller_.work();
  EXPECT_EQ(controller_.queue().entries_kept(), before);
}

}  // namespace
}  // namespace divvy::kube
