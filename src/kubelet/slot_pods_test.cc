#include "kubelet/slot_pods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "kubelet/testing.h"
#include "sys/fake_disk.h"

namespace divvy::kubelet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kNode;
using testing::put_pod;
using testing::set_phase;
using ::testing::SizeIs;
using testing::test_slice;

class FakePodResources final : public PodResources {
 public:
  Result<std::vector<HeldSlots>> held_slots() override {
    ++asked;
    if (away) return err(ErrorCode::kUnavailable, "the kubelet is away");
    std::vector<HeldSlots> all;
    for (const auto& [holder, slots] : held) all.push_back({holder, slots});
    return all;
  }
  std::map<SlotHolder, std::set<std::string>> held;
  bool away = false;
  int asked = 0;
};

class SlotPodsTest : public ::testing::Test {
 protected:
  void SetUp() override { start(); }
  void start() {
    pods_.reset();
    claims_.reset();
    auto made = PreparedClaims::create({api_, agent_, devices_, disk_, view_});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    claims_ = *std::move(made);
    pods_ = std::make_unique<SlotPods>(SlotPods::Options{}, *claims_, resources_, api_);
  }
  // The kubelet admits a container; the device that it was told.
  std::string admit(const std::string& pod, const std::string& container, const std::string& slot) {
    const auto devices = pods_->allocate({slot});
    EXPECT_TRUE(devices.has_value()) << devices.error().message;
    resources_.held[{"a", pod, container}] = {slot};
    return devices ? devices->front() : "";
  }
  void forget(const std::string& pod) {
    std::erase_if(resources_.held, [&](const auto& one) { return one.first.pod == pod; });
  }
  [[nodiscard]] std::set<std::string> files(const std::string& uid) const {
    const auto found = devices_.files.find(uid);
    return found == devices_.files.end() ? std::set<std::string>() : found->second;
  }

  const LogCapture quiet_{LogLevel::kOff};
  kube::FakeApi api_;
  testing::FakeAgent agent_;
  testing::FakeDevices devices_;
  sys::FakeDisk disk_;
  NodeView view_{kNode};
  FakePodResources resources_;
  std::unique_ptr<PreparedClaims> claims_;
  std::unique_ptr<SlotPods> pods_;
};

TEST_F(SlotPodsTest, AContainerGetsTheSliceOfItsPod) {
  const std::string uid = put_pod(
      api_, "p", {{"main", "s-1", test_slice(0, 300)}, {"side", "s-2", test_slice(1, 200)}});
  const std::string main = admit("p", "main", "slot-0003");
  const std::string side = admit("p", "side", "slot-0001");
  EXPECT_EQ(main, "divvy.dev/slot=slot-0003-1");
  EXPECT_EQ(side, "divvy.dev/slot=slot-0001-2");
  EXPECT_TRUE(agent_.held().empty());
  Status started = pods_->start_container({"slot-0003"});
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_THAT(agent_.held(), SizeIs(2)) << "those of the whole pod at once";
  EXPECT_EQ(files(uid), (std::set<std::string>{"slot-0003-1"}));
  ASSERT_TRUE(pods_->start_container({"slot-0001"}));
  EXPECT_THAT(agent_.held(), SizeIs(2));
  EXPECT_EQ(files(uid), (std::set<std::string>{"slot-0003-1", "slot-0001-2"}));
  EXPECT_EQ(view_.now().claims.at(uid).pod, "p");
  EXPECT_EQ(devices_.socket_wait_seconds, 60U);
}

TEST_F(SlotPodsTest, ARestartIsAnsweredTheSame) {
  const std::string uid = put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}});
  admit("p", "main", "slot-0000");
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  const auto before = files(uid);
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  EXPECT_EQ(files(uid), before);
  EXPECT_THAT(agent_.held(), SizeIs(1));
  // The agent is replaced, and what is in /run is lost.
  devices_.files.clear();
  start();
  EXPECT_EQ(files(uid), before);
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  EXPECT_EQ(files(uid), before);
  EXPECT_THAT(agent_.held(), SizeIs(1));
}

TEST_F(SlotPodsTest, ANameThatWasGivenBeforeARestartIsThereWhenItsContainerStarts) {
  const std::string uid = put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}});
  const std::string device = admit("p", "main", "slot-0000");
  start();
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  EXPECT_THAT(files(uid), ElementsAre(device.substr(device.find('=') + 1)));
}

TEST_F(SlotPodsTest, AnInitContainerHasTheSlotThatTheFirstContainerTakesOver) {
  const std::string uid = put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}});
  const auto warm = pods_->allocate({"slot-0000"});
  ASSERT_TRUE(warm.has_value());
  const std::string main = admit("p", "main", "slot-0000");
  EXPECT_NE(warm->front(), main);
  // The kubelet says who holds the slot, and not that an init container does.
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  EXPECT_EQ(files(uid), (std::set<std::string>{"slot-0000-1", "slot-0000-2"}));
}

TEST_F(SlotPodsTest, SaysWhyAContainerCannotStart) {
  EXPECT_THAT(pods_->start_container({"slot-0000"}).error().message, HasSubstr("no container"));
  admit("p", "main", "slot-0000");
  EXPECT_FALSE(pods_->start_container({"slot-0000"})) << "there is no such pod";
  put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}}, "gpu-2");
  EXPECT_THAT(pods_->start_container({"slot-0000"}).error().message, HasSubstr("not bound"));
  put_pod(api_, "p", {{"other", "s-1", test_slice(0, 300)}});
  EXPECT_THAT(pods_->start_container({"slot-0000"}).error().message, HasSubstr("given no slice"));
  resources_.away = true;
  EXPECT_EQ(pods_->start_container({"slot-0000"}).error().code, ErrorCode::kUnavailable);
  resources_.away = false;
  resources_.held[{"a", "q", "main"}] = {"slot-0000"};
  EXPECT_THAT(pods_->start_container({"slot-0000"}).error().message, HasSubstr("a/p, a/q"));
  EXPECT_TRUE(agent_.held().empty());
  EXPECT_TRUE(claims_->slot_pods().empty());
}

TEST_F(SlotPodsTest, RefusesWhatAnotherPodHoldsUntilThatHasEnded) {
  put_pod(api_, "p", {{"main", "s-1", test_slice(0, 700)}});
  const std::string second = put_pod(api_, "q", {{"main", "s-2", test_slice(0, 700)}});
  admit("p", "main", "slot-0000");
  admit("q", "main", "slot-0001");
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  EXPECT_FALSE(pods_->start_container({"slot-0001"}));
  EXPECT_THAT(claims_->slot_pods(), SizeIs(1));
  set_phase(api_, "p", "Succeeded");
  forget("p");
  EXPECT_EQ(pods_->sweep(), 1U);
  EXPECT_TRUE(pods_->start_container({"slot-0001"}));
  EXPECT_EQ(files(second), std::set<std::string>{"slot-0001-2"}) << "by the name of before";
}

TEST_F(SlotPodsTest, ReleasesAPodThatHasEndedOrIsGoneAndNoOther) {
  const std::string uid = put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}});
  admit("p", "main", "slot-0000");
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  const std::size_t requests = api_.requests().size();
  EXPECT_EQ(pods_->sweep(), 0U);
  EXPECT_EQ(api_.requests().size(), requests) << "the kubelet knows that it lives";
  forget("p");
  EXPECT_EQ(pods_->sweep(), 0U) << "the API server knows that it lives";
  EXPECT_THAT(agent_.held(), SizeIs(1));
  // Deleted, and there is another of its name.
  ASSERT_TRUE(api_.remove(std::string(testing::kPods) + "/p", {{"gracePeriodSeconds", 0}}));
  put_pod(api_, "p", {{"main", "s-2", test_slice(1, 300)}});
  admit("p", "main", "slot-0007");
  agent_.in_use = true;
  EXPECT_EQ(pods_->sweep(), 0U) << "a process of it is still there";
  EXPECT_THAT(agent_.held(), SizeIs(1));
  agent_.in_use = false;
  api_.set_away(true);
  EXPECT_EQ(pods_->sweep(), 0U) << "nobody can tell";
  api_.set_away(false);
  EXPECT_EQ(pods_->sweep(), 1U);
  EXPECT_TRUE(agent_.held().empty());
  EXPECT_FALSE(devices_.files.contains(uid));
  EXPECT_TRUE(claims_->slot_pods().empty());
}

TEST_F(SlotPodsTest, ASlotWhoseLastHolderLivesIsNotGivenAgain) {
  put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}});
  admit("p", "main", "slot-0000");
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  const auto again = pods_->allocate({"slot-0000"});
  ASSERT_FALSE(again.has_value());
  EXPECT_THAT(again.error().message, HasSubstr("still held for pod a/p"));
  // It has ended, and nobody has looked since.
  set_phase(api_, "p", "Failed");
  const auto after = pods_->allocate({"slot-0000"});
  ASSERT_TRUE(after.has_value()) << after.error().message;
  EXPECT_THAT(*after, ElementsAre("divvy.dev/slot=slot-0000-3"));
}

TEST_F(SlotPodsTest, PrefersSlotsThatNobodyUsedLately) {
  put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}});
  admit("p", "main", "slot-0001");
  ASSERT_TRUE(pods_->start_container({"slot-0001"}));
  ASSERT_TRUE(pods_->allocate({"slot-0000"}));
  EXPECT_THAT(pods_->prefer({"slot-0000", "slot-0001", "slot-0002"}, {}, 1),
              ElementsAre("slot-0002"));
  EXPECT_THAT(pods_->prefer({"slot-0000", "slot-0001", "slot-0002"}, {}, 3),
              ElementsAre("slot-0002", "slot-0000", "slot-0001"));
  EXPECT_THAT(pods_->prefer({"slot-0000", "slot-0001"}, {"slot-0001"}, 2),
              ElementsAre("slot-0001", "slot-0000"));
  EXPECT_TRUE(pods_->prefer({}, {}, 1).empty());
}

TEST_F(SlotPodsTest, WhatIsHeldIsFoundAgainWithoutTheRecord) {
  const std::string uid = put_pod(api_, "p", {{"main", "s-1", test_slice(0, 300)}});
  admit("p", "main", "slot-0000");
  ASSERT_TRUE(pods_->start_container({"slot-0000"}));
  const auto before = files(uid);
  ASSERT_TRUE(disk_.remove(ClaimRecords::kFile));
  start();
  ASSERT_THAT(claims_->slot_pods(), SizeIs(1));
  EXPECT_EQ(claims_->slot_pods()[0].uid, uid);
  EXPECT_EQ(files(uid), before) << "the file still says what its slots were called";
  set_phase(api_, "p", "Succeeded");
  forget("p");
  EXPECT_EQ(pods_->sweep(), 1U);
  EXPECT_TRUE(agent_.held().empty());
}

}  // namespace
}  // namespace divvy::kubelet
