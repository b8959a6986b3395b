// The controller with its threads, against an API server in memory.
#include "kube/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>

#include "agent/order_documents.h"
#include "kube/controller_routes.h"
#include "kube/fake_api.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/request_annotation.h"
#include "kube/time_stamp.h"
#include "model/testing.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr const char* kPods = "/api/v1/namespaces/team-a/pods";

class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() {
    const json::object ready{{"type", "Ready"}, {"status", "True"}};
    api_.put("/api/v1/nodes", {{"metadata", {{"name", "node-0"}}},
                               {"status", {{"conditions", json::array{ready}}}}});
    api_.put("/api/v1/namespaces", {{"metadata", {{"name", "team-a"}}}});
    agent::MachineState state;
    state.node = "node-0";
    state.gpus.push_back({.uuid = model::test_uuid(1)});
    state.gpus.back().model = "NVIDIA H200";
    state.gpus.back().memory = gib(100);
    const json::value news =
        json::parse(agent::write_message(agent::News(agent::StateChanged{state})));
    api_.put(
        "/apis/divvy.dev/v1/gpunodes",
        {{"metadata", {{"name", "node-0"}}},
         {"status",
          {{"heartbeat", time_stamp(clock_.wall_now())}, {"state", news.at("body").at("state")}}}});
  }

  std::unique_ptr<Controller> controller(const std::string& identity) {
    Controller::Options options;
    options.queue.seed = std::hash<std::string>()(identity);
    options.lease = {.space = "divvy-system", .name = "divvy-controller", .identity = identity};
    options.lease.retry = 1s;
    options.writers = 2;
    auto made = Controller::create(api_, api_, clock_, std::move(options));
    EXPECT_TRUE(made.has_value());
    return *std::move(made);
  }

  void create_pod(const std::string& name, const std::string& gpu) {
    PodRequest asked(model::JobSpec(*model::Request::parse(gpu)));
    asked.spec.holder = model::Holder::kSlice;
    asked.dialect = "divvy";
    asked.containers = {"main"};
    const json::object claim{{"name", kPodClaim}, {"resourceClaimName", "divvy-" + name}};
    const auto made = api_.create(
        kPods,
        {{"metadata",
          {{"name", name},
           {"annotations", json::object{{kRequestAnnotation, write_request_annotation(asked)}}}}},
         {"spec",
          {{"containers", json::array{json::object{{"name", "main"}}}},
           {"resourceClaims", json::array{claim}},
           {"schedulingGates", json::array{json::object{{"name", kQueueGate}}}}}}});
    ASSERT_TRUE(made.has_value()) << made.error().message;
  }

  // Returns when an object of the collection is so; every change since the beginning counts.
  void await(const std::string& collection, const std::function<bool(const json::object&)>& is_so) {
    const Status ended = api_.watch(collection + "?resourceVersion=1", [&](WatchEvent event) {
      return event.kind == WatchEvent::Kind::kBookmark || !is_so(event.object);
    });
    ASSERT_TRUE(ended.has_value()) << ended.error().message;
  }
  void await_released(const std::string& pod) {
    await(kPods, [&pod](const json::object& object) {
      return text_at(object, {"metadata", "name"}) == pod &&
             array_at(object, {"spec", "schedulingGates"}).empty();
    });
  }
  void await_leader(const std::string& identity) {
    await("/apis/coordination.k8s.io/v1/namespaces/divvy-system/leases",
          [&identity](const json::object& lease) {
            return text_at(lease, {"spec", "holderIdentity"}) == identity;
          });
  }

  SystemClock clock_;
  FakeApi api_{clock_};
};

TEST_F(ControllerTest, PlacesThePodsThatAreThereAndThoseThatCome) {
  create_pod("before", "0.5");
  const auto running = controller("one");
  await_released("before");
  create_pod("after", "0.5");
  await_released("after");
  const auto claim =
      api_.get("/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/divvy-after");
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ((*read_allocation(*claim))->node, "node-0");
}

TEST_F(ControllerTest, OnlyOneOfTwoReplicasLeadsAndTheOtherTakesOver) {
  auto one = controller("one");
  await_leader("one");
  const auto two = controller("two");
  create_pod("first", "0.5");
  await_released("first");
  EXPECT_FALSE(two->leads());
  EXPECT_EQ(two->load().written, 0U);
  const auto asked = two->explain("team-a", "first");
  ASSERT_FALSE(asked.has_value());
  EXPECT_EQ(asked.error().code, ErrorCode::kUnavailable);
  one.reset();
  create_pod("second", "0.5");
  await_released("second");
  EXPECT_TRUE(two->leads());
  EXPECT_GT(two->load().written, 0U);
}

TEST_F(ControllerTest, GoesOnWhenTheApiServerIsBack) {
  const auto running = controller("one");
  create_pod("first", "0.5");
  await_released("first");
  api_.set_away(true);
  api_.set_away(false);
  create_pod("second", "0.3");
  await_released("second");
}

TEST_F(ControllerTest, KeepsNothingOfPodsOfOthers) {
  const auto made =
      api_.create(kPods, {{"metadata", {{"name", "web"}}},
                          {"spec", {{"containers", json::array{json::object{{"name", "web"}}}}}}});
  ASSERT_TRUE(made.has_value());
  const auto running = controller("one");
  create_pod("ours", "0.5");
  await_released("ours");
  EXPECT_EQ(running->load().pods, 1U);
}

// Says who has a token, and what they may see.
class Reviews final : public ApiServer {
 public:
  Result<json::object> get(const std::string& /*path*/) override { return refuse(); }
  Result<json::object> create(const std::string& path, const json::object& object) override {
    if (path.ends_with("/tokenreviews")) {
      const bool known = text_at(object, {"spec", "token"}) == "secret";
      return json::object{{"status", {{"authenticated", known}, {"user", {{"username", "ada"}}}}}};
    }
    const bool allowed = text_at(object, {"spec", "user"}) == "ada" &&
                         text_at(object, {"spec", "resourceAttributes", "namespace"}) == "team-a" &&
                         text_at(object, {"spec", "resourceAttributes", "resource"}) == "pods";
    return json::object{{"status", {{"allowed", allowed}}}};
  }
  Result<json::object> replace(const std::string& /*path*/,
                               const json::object& /*object*/) override {
    return refuse();
  }
  Result<json::object> patch(const std::string& /*path*/, PatchType /*type*/,
                             const json::value& /*patch*/) override {
    return refuse();
  }
  Status remove(const std::string& /*path*/, const json::object& /*options*/) override {
    return err(ErrorCode::kUnsupported, "only reviews");
  }
  Status watch(const std::string& /*path*/, const std::function<bool(WatchEvent)>& /*take*/,
               const std::stop_token& /*stop*/) override {
    return err(ErrorCode::kUnsupported, "only reviews");
  }

 private:
  static Result<json::object> refuse() { return err(ErrorCode::kUnsupported, "only reviews"); }
};

TEST_F(ControllerTest, SaysWhyAPodWaitsToWhoeverMaySeeIt) {
  const auto running = controller("one");
  create_pod("first", "1");
  await_released("first");
  create_pod("second", "1");
  await(kPods, [](const json::object& pod) {
    if (text_at(pod, {"metadata", "name"}) != "second") return false;
    const json::array& conditions = array_at(pod, {"status", "conditions"});
    return !conditions.empty();
  });
  Reviews reviews;
  const ControllerRoutes routes(*running, reviews);
  const auto ask = [&routes](const std::string& path, const std::string& token) {
    net::HttpRequest request{"GET", path, "", ""};
    if (!token.empty()) request.headers["authorization"] = "Bearer " + token;
    return routes.handle(request);
  };
  const net::HttpResponse waits = ask("/v1/pods/team-a/second/explain", "secret");
  EXPECT_EQ(waits.status, 200) << waits.body;
  EXPECT_THAT(waits.body, HasSubstr("\"placed\":false"));
  EXPECT_THAT(waits.body, HasSubstr("\"place\":1"));
  EXPECT_THAT(ask("/v1/pods/team-a/first/explain", "secret").body,
              HasSubstr("\"node\":\"node-0\""));
  EXPECT_EQ(ask("/v1/pods/team-a/second/explain", "").status, 403);
  EXPECT_EQ(ask("/v1/pods/team-a/second/explain", "guess").status, 403);
  EXPECT_EQ(ask("/v1/pods/team-b/second/explain", "secret").status, 403);
  EXPECT_EQ(ask("/v1/pods/team-a/nobody/explain", "secret").status, 404);
  EXPECT_EQ(ask("/v1/pods/team-a/../explain", "secret").status, 404);
  EXPECT_EQ(ask("/v1/pods/team-a", "secret").status, 404);
}

TEST_F(ControllerTest, EveryReplicaReadsPodsAsTheirNamespaceAndItsPolicySay) {
  api_.put("/apis/divvy.dev/v1/policies",
           {{"metadata", {{"name", "serving"}}},
            {"spec",
             {{"namespaces", json::array{"team-a", "not-heard-of"}},
              {"dialects", {{"nvidiaGpus", "replicas"}, {"replicasPerGpu", 4}}}}}});
  const auto running = controller("one");
  // It has seen both when it tells for how many namespaces the policy holds.
  await("/apis/divvy.dev/v1/policies", [](const json::object& object) {
    return number_at(object, {"status", "namespaces"}) == 1U;
  });
  const DialectPolicy usual;
  const auto policy = running->dialects_for("team-a", usual);
  ASSERT_TRUE(policy.has_value());
  EXPECT_EQ(policy->nvidia_gpus, NvidiaGpus::kReplicas);
  EXPECT_EQ(running->dialects_for("elsewhere", usual), usual);
  const auto new_one = running->dialects_for("not-heard-of", usual);
  ASSERT_TRUE(new_one.has_value());
  EXPECT_EQ(new_one->nvidia_gpus, NvidiaGpus::kReplicas) << "it was made a moment ago";
}

TEST_F(ControllerTest, NoPodIsReadBeforePoliciesAreKnown) {
  api_.put("/apis/divvy.dev/v1/policies",
           {{"metadata", {{"name", "frugal"}}},
            {"spec",
             {{"namespaces", json::array{"team-a"}},
              {"placement", {{"notModels", json::array{"H200"}}}}}}});
  // An API server that is slow, or on its way up again.
  api_.set_fault([](const std::string&, const std::string& path) -> std::optional<Error> {
    if (path.find("/policies") == std::string::npos) return std::nullopt;
    return Error{ErrorCode::kUnavailable, "not yet"};
  });
  const auto running = controller("one");
  const DialectPolicy usual;
  const auto unknown = running->dialects_for("team-a", usual);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnavailable);
  api_.set_fault(nullptr);
  ASSERT_TRUE(running->await_policies(std::chrono::minutes(2)));
  const auto known = running->dialects_for("team-a", usual);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->defaults.models_denied, std::vector<std::string>{"H200"});
}

}  // namespace
}  // namespace divvy::kube
