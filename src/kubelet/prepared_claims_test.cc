#include "kubelet/prepared_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "kubelet/testing.h"
#include "sys/fake_disk.h"

namespace divvy::kubelet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kNode;
using testing::put_claim;
using ::testing::SizeIs;
using testing::test_slice;

class PreparedClaimsTest : public ::testing::Test {
 protected:
  void SetUp() override { start(); }
  void start() {
    claims_.reset();
    auto made = PreparedClaims::create({api_, agent_, devices_, disk_, view_});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    claims_ = *std::move(made);
  }
  [[nodiscard]] static ClaimName named(const std::string& name, const std::string& uid) {
    return {"a", name, uid};
  }
  [[nodiscard]] std::string two_containers() {
    return put_claim(api_, "c",
                     {{"main", "s-1", test_slice(0, 300)}, {"side", "s-2", test_slice(0, 200)}});
  }

  const LogCapture quiet_{LogLevel::kOff};
  kube::FakeApi api_;
  testing::FakeAgent agent_;
  testing::FakeDevices devices_;
  sys::FakeDisk disk_;
  NodeView view_{kNode};
  std::unique_ptr<PreparedClaims> claims_;
};

TEST_F(PreparedClaimsTest, GrantsExactlyWhatWasAllocated) {
  const std::string uid = two_containers();
  const auto prepared = claims_->prepare(named("c", uid));
  ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
  EXPECT_THAT(
      *prepared,
      ElementsAre(PreparedDevice{"main", kNode, "s-1", "divvy.dev/claim=" + uid + "-main"},
                  PreparedDevice{"side", kNode, "s-2", "divvy.dev/claim=" + uid + "-side"}));
  const auto held = agent_.held();
  ASSERT_THAT(held, SizeIs(2));
  EXPECT_EQ(held[0].slices, std::vector{test_slice(0, 300)});
  EXPECT_EQ(held[1].slices, std::vector{test_slice(0, 200)});
  EXPECT_EQ(held[0].holder, model::Holder::kSlice);
  EXPECT_EQ(devices_.files.at(uid), (std::set<std::string>{uid + "-main", uid + "-side"}));
  EXPECT_EQ(view_.now().claims.at(uid).pod, "pod-1");
  EXPECT_EQ(devices_.socket_wait_seconds, 60U);
}

TEST_F(PreparedClaimsTest, AnswersTheSameAgain) {
  const std::string uid = two_containers();
  const auto first = claims_->prepare(named("c", uid));
  const auto second = claims_->prepare(named("c", uid));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
  EXPECT_THAT(agent_.held(), SizeIs(2));
  start();
  const auto third = claims_->prepare(named("c", uid));
  ASSERT_TRUE(third.has_value());
  EXPECT_EQ(*first, *third);
  EXPECT_THAT(agent_.held(), SizeIs(2));
}

TEST_F(PreparedClaimsTest, RefusesAClaimOfAnotherUidNodeOrDriver) {
  const std::string elsewhere =
      put_claim(api_, "c", {{"main", "s-1", test_slice(0, 300)}}, "gpu-2");
  EXPECT_THAT(claims_->prepare(named("c", elsewhere)).error().message, HasSubstr("gpu-2"));
  EXPECT_EQ(claims_->prepare(named("c", "another")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(claims_->prepare(named("gone", "uid")).error().code, ErrorCode::kNotFound);
  const std::string unallocated = put_claim(api_, "d", {});
  EXPECT_EQ(claims_->prepare(named("d", unallocated)).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(agent_.held(), IsEmpty());
  EXPECT_THAT(view_.now().claims, IsEmpty());
}

TEST_F(PreparedClaimsTest, RefusesWhatAnotherClaimHoldsAndTakesItWhenThatIsReleased) {
  const std::string first = put_claim(api_, "c", {{"main", "s-1", test_slice(0, 700)}});
  const std::string second = put_claim(
      api_, "d", {{"main", "s-2", test_slice(1, 700)}, {"side", "s-3", test_slice(0, 700)}});
  ASSERT_TRUE(claims_->prepare(named("c", first)));
  EXPECT_EQ(claims_->prepare(named("d", second)).error().code, ErrorCode::kResourceExhausted);
  // Not even the part of it that would have fitted stays.
  EXPECT_THAT(agent_.held(), SizeIs(1));
  EXPECT_FALSE(devices_.files.contains(second));
  ASSERT_TRUE(claims_->unprepare(named("c", first)));
  EXPECT_TRUE(claims_->prepare(named("d", second)));
}

TEST_F(PreparedClaimsTest, ReleasesClaimsThatAreGoneFromTheApiServer) {
  const std::string uid = two_containers();
  ASSERT_TRUE(claims_->prepare(named("c", uid)));
  ASSERT_TRUE(api_.remove(std::string(testing::kClaims) + "/c", {}));
  api_.set_away(true);
  start();
  EXPECT_TRUE(claims_->unprepare(named("c", uid)));
  EXPECT_THAT(agent_.held(), IsEmpty());
  EXPECT_THAT(devices_.files, IsEmpty());
  EXPECT_THAT(view_.now().claims, IsEmpty());
  EXPECT_TRUE(claims_->unprepare(named("c", uid))) << "nothing is left to do";
  EXPECT_TRUE(claims_->unprepare(named("never", "seen")));
}

TEST_F(PreparedClaimsTest, KeepsWhatProcessesStillUse) {
  const std::string uid = two_containers();
  ASSERT_TRUE(claims_->prepare(named("c", uid)));
  agent_.in_use = true;
  EXPECT_EQ(claims_->unprepare(named("c", uid)).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(agent_.held(), SizeIs(2));
  EXPECT_TRUE(view_.now().claims.contains(uid));
  agent_.in_use = false;
  EXPECT_TRUE(claims_->unprepare(named("c", uid)));
  EXPECT_THAT(agent_.held(), IsEmpty());
}

TEST_F(PreparedClaimsTest, RefusesOtherSlicesForAClaimThatIsPrepared) {
  const std::string uid = two_containers();
  ASSERT_TRUE(claims_->prepare(named("c", uid)));
  auto other = api_.get(std::string(testing::kClaims) + "/c").value();
  kube::Allocation allocation{
      .node = kNode, .slices = {{"main", "s-9", test_slice(1, 300)}}, .at = {}};
  other["status"].as_object()["allocation"] = kube::write_allocation(allocation);
  api_.put(testing::kClaims, other);
  EXPECT_EQ(claims_->prepare(named("c", uid)).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(agent_.held(), SizeIs(2));
}

TEST_F(PreparedClaimsTest, FindsItsClaimsWithoutTheRecord) {
  const std::string uid = two_containers();
  const auto before = claims_->prepare(named("c", uid));
  ASSERT_TRUE(before.has_value());
  devices_.files.clear();
  disk_.put(ClaimRecords::kFile, "\0\0\0");
  start();
  EXPECT_TRUE(view_.now().claims.contains(uid));
  EXPECT_EQ(devices_.files.at(uid), (std::set<std::string>{uid + "-main", uid + "-side"}));
  const auto after = claims_->prepare(named("c", uid));
  ASSERT_TRUE(after.has_value()) << after.error().message;
  EXPECT_EQ(*before, *after);
  ASSERT_TRUE(claims_->unprepare(named("c", uid)));
  EXPECT_THAT(agent_.held(), IsEmpty());
}

TEST_F(PreparedClaimsTest, DoesNotTouchSlicesOfOthers) {
  agent::HeldSlices mine{.key = {model::JobId(40), 1, 0}, .holder = model::Holder::kSlice};
  mine.name = "web";
  mine.slices = {test_slice(1, 100)};
  agent_.hold(mine);
  start();
  const std::string uid = two_containers();
  ASSERT_TRUE(claims_->prepare(named("c", uid)));
  ASSERT_TRUE(claims_->unprepare(named("c", uid)));
  ASSERT_THAT(agent_.held(), SizeIs(1));
  EXPECT_EQ(agent_.held()[0], mine);
}

TEST_F(PreparedClaimsTest, RemovesTheDevicesOfClaimsThatItDoesNotKnow) {
  devices_.files["stray"] = {"stray-main"};
  start();
  EXPECT_THAT(devices_.files, IsEmpty());
}

}  // namespace
}  // namespace divvy::kubelet
