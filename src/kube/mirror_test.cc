#include "kube/mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <future>

#include "kube/fake_api.h"
#include "kube/lister.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

const std::string kPods = "/api/v1/namespaces/a/pods";

class MirrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"x", "y", "z"}) make(name);
  }
  void make(const std::string& name) {
    ASSERT_TRUE(api_.create(kPods, {{"metadata", {{"name", name}}}}));
  }
  void label(const std::string& name) {
    ASSERT_TRUE(api_.patch(kPods + "/" + name, PatchType::kMerge,
                           {{"metadata", {{"labels", {{"l", std::to_string(++labels_)}}}}}}));
  }
  void remove(const std::string& name) { ASSERT_TRUE(api_.remove(kPods + "/" + name, {})); }

  void start() {
    mirror_ = std::make_unique<Mirror>(
        api_, clock_, MirrorOptions{.path = "/api/v1/pods", .page = 2},
        [this](const ObjectChange& change) {
          const ObjectPtr& any = change.after ? change.after : change.before;
          const char* mark = change.before == nullptr ? "+" : (change.after == nullptr ? "-" : "~");
          const std::lock_guard lock(mutex_);
          told_.push_back(mark + std::string(text_at(*any, "metadata.name")));
          changed_.notify_all();
        });
    ASSERT_TRUE(mirror_->await_synced(std::chrono::minutes(2)));
  }
  // What was told since the last call, when it is so much.
  std::vector<std::string> told(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return told_.size() >= count; });
    return std::exchange(told_, {});
  }
  // Until it waits before it tries again.
  void await_pause() { clock_.await_waiters(1); }

  ManualClock clock_;
  FakeApi api_{clock_};
  int labels_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> told_;
  std::unique_ptr<Mirror> mirror_;
};

TEST_F(MirrorTest, TellsWhatIsThereAndWhatHappens) {
  start();
  EXPECT_THAT(told(3), ElementsAre("+x", "+y", "+z"));
  EXPECT_TRUE(mirror_->synced());
  make("n");
  label("x");
  remove("y");
  EXPECT_THAT(told(3), ElementsAre("+n", "~x", "-y"));
  EXPECT_EQ(mirror_->find("a", "y"), nullptr);
  ASSERT_NE(mirror_->find("a", "x"), nullptr);
  EXPECT_EQ(mirror_->all().size(), 3U);
  EXPECT_EQ(*mirror_->find("a", "x"), *api_.get(kPods + "/x"));
}

TEST_F(MirrorTest, AWatchThatEndsGoesOnWhereItWas) {
  start();
  EXPECT_EQ(told(3).size(), 3U);
  for (int i = 0; i < 3; ++i) {
    api_.await_watches(1);
    label("x");
    EXPECT_THAT(told(1), ElementsAre("~x"));
    api_.end_watches();
  }
  label("z");
  EXPECT_THAT(told(1), ElementsAre("~z")) << "nothing was listed or told twice";
}

TEST_F(MirrorTest, WhatHappenedWhileItsVersionBecameTooOldIsTold) {
  start();
  EXPECT_EQ(told(3).size(), 3U);
  api_.await_watches(1);
  api_.set_fault([](const std::string& verb, const std::string&) -> std::optional<Error> {
    if (verb != "WATCH") return std::nullopt;
    return Error{ErrorCode::kUnavailable, "not now"};
  });
  api_.end_watches();
  await_pause();
  label("x");
  remove("y");
  remove("z");
  make("z");
  make("n");
  api_.expire();
  api_.set_fault({});
  clock_.advance(std::chrono::seconds(10));
  await_pause();  // After the 410
  clock_.advance(std::chrono::seconds(10));
  EXPECT_THAT(told(5), UnorderedElementsAre("~x", "-y", "-z", "+z", "+n"));
}

TEST_F(MirrorTest, AnApiServerThatComesBackIsFollowedAgain) {
  start();
  EXPECT_EQ(told(3).size(), 3U);
  api_.await_watches(1);
  api_.set_away(true);
  for (int i = 0; i < 4; ++i) {
    await_pause();
    clock_.advance(std::chrono::seconds(20));
  }
  await_pause();
  api_.put(kPods, {{"metadata", {{"name", "n"}}}});
  api_.set_away(false);
  clock_.advance(std::chrono::seconds(20));
  EXPECT_THAT(told(1), ElementsAre("+n"));
  EXPECT_TRUE(mirror_->synced());
}

TEST_F(MirrorTest, WaitsForAnApiServerThatIsNotThereYet) {
  api_.set_away(true);
  std::promise<void> synced;
  mirror_ = std::make_unique<Mirror>(
      api_, clock_, MirrorOptions{.path = "/api/v1/pods"}, [](const ObjectChange&) {},
      [&] { synced.set_value(); });
  await_pause();
  EXPECT_FALSE(mirror_->synced());
  EXPECT_FALSE(mirror_->await_synced(std::chrono::milliseconds(0)));
  api_.set_away(false);
  clock_.advance(std::chrono::seconds(10));
  synced.get_future().wait();
  EXPECT_EQ(mirror_->all().size(), 3U);
}

TEST_F(MirrorTest, EndsWhileAWatchIsSilentAndWhileItWaits) {
  start();
  api_.await_watches(1);
  mirror_.reset();
  EXPECT_EQ(api_.running_watches(), 0U);
  start();
  api_.set_away(true);
  await_pause();
  mirror_.reset();
}

TEST_F(MirrorTest, FollowsOnlyWhatItsSelectorsName) {
  mirror_ = std::make_unique<Mirror>(
      api_, clock_, MirrorOptions{.path = "/api/v1/pods?fieldSelector=metadata.name%3Dy"},
      [](const ObjectChange&) {});
  ASSERT_TRUE(mirror_->await_synced(std::chrono::minutes(2)));
  EXPECT_EQ(mirror_->all().size(), 1U);
}

TEST(ListAll, BeginsAnewWhenAPageBecomesTooOld) {
  FakeApi api;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(api.create(kPods, {{"metadata", {{"name", "p" + std::to_string(i)}}}}));
  }
  std::atomic<int> gets{0};
  api.set_fault([&](const std::string&, const std::string& path) -> std::optional<Error> {
    ++gets;
    if (path.find("continue") == std::string::npos) return std::nullopt;
    return Error{ErrorCode::kOutOfRange, "The provided continue parameter is too old"};
  });
  const auto listing = list_all(api, kPods, 4);
  ASSERT_TRUE(listing.has_value()) << listing.error().message;
  EXPECT_EQ(listing->items.size(), 10U) << "at last everything at once";
  EXPECT_EQ(gets, 7);
  api.set_fault({});
  EXPECT_EQ(list_all(api, kPods, 3)->items.size(), 10U);
  api.fail_next("GET", {ErrorCode::kPermissionDenied, "not you"});
  EXPECT_EQ(list_all(api, kPods).error().code, ErrorCode::kPermissionDenied);
}

}  // namespace
}  // namespace divvy::kube
