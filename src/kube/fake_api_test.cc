#include "kube/fake_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <thread>

#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

const std::string kPods = "/api/v1/namespaces/a/pods";
const std::string kClaims = "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims";

json::object pod(const std::string& name, json::object spec = {}) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}}},
          {"spec", std::move(spec)}};
}
std::string version_of(const json::object& object) {
  return std::string(text_at(object, "metadata.resourceVersion"));
}
template <typename T>
ErrorCode code_of(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? ErrorCode::kInternal : result.error().code;
}

TEST(FakeApi, CreatesWithUidVersionAndTime) {
  FakeApi api;
  const auto made = api.create(kPods, pod("x"));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(text_at(*made, "metadata.namespace"), "a");
  EXPECT_EQ(text_at(*made, "metadata.uid").size(), 36U);
  EXPECT_EQ(text_at(*made, "status.phase"), "Pending");
  EXPECT_FALSE(text_at(*made, "metadata.creationTimestamp").empty());
  EXPECT_EQ(*api.get(kPods + "/x"), *made);
  EXPECT_EQ(code_of(api.create(kPods, pod("x"))), ErrorCode::kAlreadyExists);
  EXPECT_EQ(code_of(api.get(kPods + "/y")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(api.create(kPods, {})), ErrorCode::kInvalidArgument);
  const auto named = api.create(kPods, {{"metadata", {{"generateName", "divvy-"}}}});
  EXPECT_THAT(std::string(text_at(*named, "metadata.name")), ::testing::MatchesRegex("divvy-.{5}"));
}

TEST(FakeApi, AWriteWithAnOldVersionIsAConflict) {
  FakeApi api;
  json::object object = *api.create(kPods, pod("x"));
  object["metadata"].as_object()["labels"] = {{"l", "1"}};
  const auto second = api.replace(kPods + "/x", object);
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_NE(version_of(*second), version_of(object));
  EXPECT_EQ(code_of(api.replace(kPods + "/x", object)), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(*api.replace(kPods + "/x", *second), *second) << "nothing changed, nothing is written";
  const json::value old{{"metadata", {{"resourceVersion", version_of(object)}, {"labels", {}}}}};
  EXPECT_EQ(code_of(api.patch(kPods + "/x", PatchType::kMerge, old)),
            ErrorCode::kFailedPrecondition);
  const json::value other{{"metadata", {{"uid", "another"}}}};
  EXPECT_EQ(code_of(api.patch(kPods + "/x", PatchType::kMerge, other)),
            ErrorCode::kFailedPrecondition);
}

TEST(FakeApi, CustomResourcesNeedAVersionToBeReplaced) {
  FakeApi api;
  const std::string nodes = "/apis/divvy.dev/v1/gpunodes";
  json::object object = *api.create(nodes, {{"metadata", {{"name", "n"}}}, {"spec", {{"a", 1}}}});
  object["metadata"].as_object().erase("resourceVersion");
  object["spec"] = {{"a", 2}};
  EXPECT_EQ(code_of(api.replace(nodes + "/n", object)), ErrorCode::kInvalidArgument);
}

TEST(FakeApi, StatusIsApartFromTheRest) {
  FakeApi api;
  json::object object = pod("x", {{"a", 1}});
  object["status"] = {{"phase", "Running"}};
  ASSERT_TRUE(api.create(kPods, object));
  EXPECT_EQ(text_at(*api.get(kPods + "/x"), "status.phase"), "Pending");
  const auto status = api.patch(kPods + "/x/status", PatchType::kMerge,
                                {{"status", {{"phase", "Running"}}}, {"spec", {{"a", 2}}}});
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(text_at(*status, "status.phase"), "Running");
  EXPECT_EQ(status->at("spec").at("a"), 1);
  EXPECT_EQ(status->at("metadata").at("generation"), 1);
  const auto main = api.patch(kPods + "/x", PatchType::kMerge,
                              {{"status", {{"phase", "Failed"}}}, {"spec", {{"a", 2}}}});
  EXPECT_EQ(text_at(*main, "status.phase"), "Running");
  EXPECT_EQ(main->at("metadata").at("generation"), 2);
}

TEST(FakeApi, APatchIsDoneWholeOrNotAtAll) {
  FakeApi api;
  ASSERT_TRUE(api.create(kPods, pod("x", {{"schedulingGates", {{{"name", "divvy.dev/queue"}}}}})));
  const json::value wrong = json::parse(
      R"([{"op":"remove","path":"/spec/schedulingGates/0"},
          {"op":"test","path":"/metadata/name","value":"y"}])");
  EXPECT_EQ(code_of(api.patch(kPods + "/x", PatchType::kJson, wrong)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(api.get(kPods + "/x")->at("spec").at("schedulingGates").as_array().size(), 1U);
  const json::value right = json::parse(
      R"([{"op":"test","path":"/metadata/name","value":"x"},
          {"op":"remove","path":"/spec/schedulingGates/0"}])");
  EXPECT_TRUE(api.patch(kPods + "/x", PatchType::kJson, right));
  const json::value back = json::parse(
      R"([{"op":"add","path":"/spec/schedulingGates/-","value":{"name":"divvy.dev/queue"}}])");
  EXPECT_EQ(code_of(api.patch(kPods + "/x", PatchType::kJson, back)), ErrorCode::kInvalidArgument)
      << "a gate cannot come back";
}

TEST(FakeApi, FinalizersHoldWhatIsDeleted) {
  FakeApi api;
  json::object claim{{"metadata", {{"name", "c"}, {"finalizers", {"divvy.dev/held"}}}}};
  ASSERT_TRUE(api.create(kClaims, claim));
  ASSERT_TRUE(api.remove(kClaims + "/c", {}));
  json::object held = *api.get(kClaims + "/c");
  EXPECT_FALSE(text_at(held, "metadata.deletionTimestamp").empty());
  held["metadata"].as_object()["finalizers"] = json::array();
  ASSERT_TRUE(api.replace(kClaims + "/c", held));
  EXPECT_EQ(code_of(api.get(kClaims + "/c")), ErrorCode::kNotFound);
}

TEST(FakeApi, DeleteObservesItsPreconditions) {
  FakeApi api;
  ASSERT_TRUE(api.create(kClaims, {{"metadata", {{"name", "c"}}}}));
  EXPECT_EQ(code_of(api.remove(kClaims + "/c", {{"preconditions", {{"uid", "another"}}}})),
            ErrorCode::kFailedPrecondition);
  const std::string uid(text_at(*api.get(kClaims + "/c"), "metadata.uid"));
  EXPECT_TRUE(api.remove(kClaims + "/c", {{"preconditions", {{"uid", uid}}}}));
}

TEST(FakeApi, ABoundPodGoesWhenItsKubeletSaysSo) {
  FakeApi api;
  ASSERT_TRUE(api.create(kPods, pod("x")));
  ASSERT_TRUE(api.create(kPods + "/x/binding", {{"target", {{"name", "gpu-1"}}}}));
  EXPECT_EQ(code_of(api.create(kPods + "/x/binding", {{"target", {{"name", "gpu-2"}}}})),
            ErrorCode::kFailedPrecondition);
  ASSERT_TRUE(api.create(kPods + "/x/eviction", {}));
  EXPECT_FALSE(text_at(*api.get(kPods + "/x"), "metadata.deletionTimestamp").empty());
  ASSERT_TRUE(
      api.patch(kPods + "/x/status", PatchType::kMerge, {{"status", {{"phase", "Failed"}}}}));
  EXPECT_TRUE(api.get(kPods + "/x")) << "a status does not end it";
  ASSERT_TRUE(api.remove(kPods + "/x", {{"gracePeriodSeconds", 0}}));
  EXPECT_FALSE(api.get(kPods + "/x"));
}

TEST(FakeApi, WhatHasNoOwnerAnyMoreIsCollected) {
  FakeApi api;
  const json::object owner = *api.create(kPods, pod("x"));
  ASSERT_TRUE(api.create(
      kClaims,
      {{"metadata",
        {{"name", "c"}, {"ownerReferences", {{{"uid", text_at(owner, "metadata.uid")}}}}}}}));
  api.collect_garbage();
  EXPECT_TRUE(api.get(kClaims + "/c"));
  ASSERT_TRUE(api.remove(kPods + "/x", {}));
  api.collect_garbage();
  EXPECT_FALSE(api.get(kClaims + "/c"));
}

TEST(FakeApi, PagesAreOfOneMoment) {
  FakeApi api;
  for (const char* name : {"x", "y", "z"}) ASSERT_TRUE(api.create(kPods, pod(name)));
  const json::object first = *api.get(kPods + "?limit=2");
  EXPECT_EQ(first.at("items").as_array().size(), 2U);
  EXPECT_FALSE(first.at("items").at(0).as_object().contains("kind"));
  ASSERT_TRUE(api.remove(kPods + "/z", {}));
  const std::string rest =
      kPods + "?limit=2&continue=" + std::string(text_at(first, "metadata.continue"));
  const auto second = api.get(rest);
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_EQ(second->at("items").as_array().size(), 1U);
  EXPECT_EQ(text_at(*second, "metadata.resourceVersion"),
            text_at(first, "metadata.resourceVersion"));
  EXPECT_EQ(text_at(*second, "metadata.continue"), "");
  api.expire();
  EXPECT_EQ(code_of(api.get(rest)), ErrorCode::kOutOfRange);
  EXPECT_EQ(api.get("/api/v1/pods?fieldSelector=metadata.name%3Dx")->at("items").as_array().size(),
            1U);
}

// What a watch says, as "+x" "~x" "-x" and "bookmark".
class FakeApiWatch : public ::testing::Test {
 protected:
  void follow(const std::string& query) {
    thread_ = std::jthread([this, query](const std::stop_token& stop) {
      end_ = api_.watch(
          kPods + query,
          [this](const WatchEvent& event) {
            const char* marks[] = {"+", "~", "-", "bookmark "};
            const std::lock_guard lock(mutex_);
            seen_.push_back(marks[static_cast<int>(event.kind)] +
                            std::string(text_at(event.object, "metadata.name")));
            changed_.notify_all();
            return true;
          },
          stop);
    });
    api_.await_watches(1);
  }
  void expect(const std::vector<std::string>& wanted) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return seen_.size() >= wanted.size(); });
    EXPECT_EQ(seen_, wanted);
  }

  FakeApi api_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> seen_;
  Status end_;
  std::jthread thread_;
};

TEST_F(FakeApiWatch, TellsWhatHappenedSinceAVersion) {
  ASSERT_TRUE(api_.create(kPods, pod("x")));
  const std::string from = version_of(*api_.get(kPods));
  ASSERT_TRUE(api_.create(kPods, pod("y")));
  ASSERT_TRUE(api_.create("/api/v1/namespaces/b/pods", pod("other")));
  follow("?allowWatchBookmarks=true&resourceVersion=" + from);
  ASSERT_TRUE(
      api_.patch(kPods + "/x", PatchType::kMerge, {{"metadata", {{"labels", {{"l", "1"}}}}}}));
  ASSERT_TRUE(api_.remove(kPods + "/y", {}));
  expect({"+y", "~x", "-y"});
  api_.send_bookmarks();
  expect({"+y", "~x", "-y", "bookmark "});
  api_.end_watches();
  thread_.join();
  EXPECT_TRUE(end_.has_value());
}

TEST_F(FakeApiWatch, BeginsWithAllWhereItHasNoVersion) {
  ASSERT_TRUE(api_.create(kPods, pod("x")));
  follow("");
  expect({"+x"});
  thread_.request_stop();
  thread_.join();
  EXPECT_EQ(end_.error().code, ErrorCode::kCancelled);
}

TEST_F(FakeApiWatch, WhatNoLongerMatchesIsGone) {
  follow("?labelSelector=l%3D1&resourceVersion=" + version_of(*api_.get(kPods)));
  ASSERT_TRUE(api_.create(kPods, pod("x")));
  const auto label = [this](const char* value) {
    return api_.patch(kPods + "/x", PatchType::kMerge,
                      {{"metadata", {{"labels", {{"l", value}}}}}});
  };
  ASSERT_TRUE(label("1"));
  ASSERT_TRUE(label("2"));
  expect({"+x", "-x"});
}

TEST_F(FakeApiWatch, AnOldVersionIsRefused) {
  const std::string from = version_of(*api_.get(kPods));
  follow("?resourceVersion=" + from);
  api_.expire();
  thread_.join();
  EXPECT_EQ(end_.error().code, ErrorCode::kOutOfRange);
  EXPECT_EQ(code_of(api_.watch(kPods + "?resourceVersion=" + from,
                               [](const WatchEvent&) { return true; })),
            ErrorCode::kOutOfRange);
}

TEST_F(FakeApiWatch, EndsWhenTheServerIsAway) {
  follow("");
  api_.set_away(true);
  thread_.join();
  EXPECT_EQ(end_.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(code_of(api_.get(kPods)), ErrorCode::kUnavailable);
  api_.set_away(false);
  EXPECT_TRUE(api_.get(kPods));
}

TEST(FakeApi, FailsOnDemand) {
  FakeApi api;
  api.fail_next("POST", {ErrorCode::kUnavailable, "no"});
  EXPECT_EQ(code_of(api.create(kPods, pod("x"))), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of(api.get(kPods + "/x")), ErrorCode::kNotFound);
  api.lose_next_answer("POST");
  EXPECT_EQ(code_of(api.create(kPods, pod("x"))), ErrorCode::kUnavailable);
  EXPECT_TRUE(api.get(kPods + "/x"));
  api.set_fault([](const std::string& verb, const std::string&) -> std::optional<Error> {
    if (verb != "DELETE") return std::nullopt;
    return Error{ErrorCode::kPermissionDenied, "not you"};
  });
  EXPECT_EQ(code_of(api.remove(kPods + "/x", {})), ErrorCode::kPermissionDenied);
  EXPECT_THAT(api.requests(), ::testing::ElementsAre("GET " + kPods + "/x", "POST " + kPods,
                                                     "GET " + kPods + "/x"));
}

}  // namespace
}  // namespace divvy::kube
