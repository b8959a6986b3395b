#include "kube/cluster_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kube/fake_api.h"
#include "kube/pod_testing.h"
#include "kube/request_annotation.h"

namespace divvy::kube {
namespace {

using ::testing::HasSubstr;
namespace json = boost::json;

constexpr const char* kClaims = "/apis/resource.k8s.io/v1/resourceclaims";

json::object parameters(const std::string& device, int share) {
  return {{"apiVersion", "divvy.dev/v1"},
          {"kind", "Slice"},
          {"device", device},
          {"gpu", "GPU-0"},
          {"shareThousandths", share},
          {"memoryBytes", 1'000'000},
          {"capped", false},
          {"class", "batch"},
          {"mode", "timeslice"}};
}

class ClusterView : public ::testing::Test {
 protected:
  void put_gpu_node(json::array held) {
    api_.put("/apis/divvy.dev/v1/gpunodes",
             {{"metadata", json::object{{"name", "gpu-1"}}},
              {"status", json::object{{"heartbeat", "2026-11-18T03:00:00Z"},
                                      {"simulated", true},
                                      {"state", json::parse(R"({"node": "gpu-1", "gpus": [
                               {"uuid": "GPU-0", "index": 0, "model": "NVIDIA H200",
                                "memory": 150000000000, "resting": "", "lost": false},
                               {"uuid": "GPU-1", "index": 1, "model": "NVIDIA H200",
                                "memory": 150000000000, "resting": "cordoned", "lost": false}]})")},
                                      {"held", std::move(held)}}}});
  }

  void put_claim(const std::string& name, const std::string& pod, const std::string& device,
                 int share) {
    api_.put(
        kClaims,
        {{"metadata", json::object{{"name", name},
                                   {"namespace", "team-a"},
                                   {"ownerReferences",
                                    json::array{json::object{{"kind", "Pod"}, {"name", pod}}}}}},
         {"status",
          json::object{
              {"allocation",
               json::object{
                   {"devices",
                    json::object{
                        {"config",
                         json::array{json::object{
                             {"requests", json::array{"main"}},
                             {"opaque",
                              json::object{{"driver", "divvy.dev"},
                                           {"parameters", parameters(device, share)}}}}}}}}}}}}});
  }

  json::object put_pod(const std::string& name, const std::string& priority, bool gated) {
    json::object pod =
        testing::pod_of({}, {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/priority", priority}});
    const auto request = read_pod_request(pod, {});
    json::object& metadata = pod["metadata"].as_object();
    metadata["annotations"].as_object()["divvy.dev/request"] = write_request_annotation(**request);
    metadata["name"] = name;
    metadata["namespace"] = "team-a";
    json::object& spec = pod["spec"].as_object();
    spec["resourceClaims"] =
        json::array{json::object{{"name", "divvy"}, {"resourceClaimName", "divvy-" + name}}};
    if (gated) spec["schedulingGates"] = json::array{json::object{{"name", "divvy.dev/queue"}}};
    pod["status"] = json::object{
        {"phase", "Pending"},
        {"conditions", json::array{json::object{{"type", "divvy.dev/Placed"},
                                                {"status", "False"},
                                                {"reason", "NoRoom"},
                                                {"message", "0.3 GPU is free nowhere"}}}}};
    return api_.put("/api/v1/pods", std::move(pod));
  }

  static json::value read(const Result<std::string>& document) {
    EXPECT_TRUE(document.has_value()) << document.error().message;
    return json::parse(document.value_or("{}"));
  }

  FakeApi api_;
};

TEST_F(ClusterView, GpusCountSlicesOfClaimsAndNodesOnce) {
  // One that its node holds already, one that it does not yet, and one whose claim is gone.
  put_claim("divvy-a", "a", "s-1", 300);
  put_claim("divvy-b", "b", "s-2", 200);
  put_gpu_node({json::object{{"namespace", "team-a"},
                             {"pod", "a"},
                             {"claim", "divvy-a"},
                             {"slices", json::array{parameters("s-1", 300)}}},
                json::object{{"namespace", "team-b"},
                             {"pod", "c"},
                             {"claim", "divvy-c"},
                             {"slices", json::array{parameters("s-3", 100)}}}});
  const json::value document = read(gpus_document(api_));
  const json::array& items = document.at("items").as_array();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].at("held").at("shareThousandths").to_number<int>(), 600);
  ASSERT_EQ(items[0].at("slices").as_array().size(), 3u);
  EXPECT_EQ(items[0].at("slices").at(0).at("state"), "held");
  EXPECT_EQ(items[0].at("slices").at(0).at("container"), "main");
  EXPECT_EQ(items[0].at("slices").at(1).at("state"), "allocated");
  EXPECT_EQ(items[0].at("slices").at(2).at("state"), "leaving");
  EXPECT_EQ(items[1].at("state"), "cordoned");
  EXPECT_EQ(items[1].at("held").at("shareThousandths").to_number<int>(), 0);
}

TEST_F(ClusterView, SlicesOfANamespaceTheLargestFirst) {
  put_gpu_node({});
  put_claim("divvy-a", "a", "s-1", 300);
  put_claim("divvy-b", "b", "s-2", 500);
  const json::value mine = read(slices_document(api_, "team-a"));
  ASSERT_EQ(mine.at("items").as_array().size(), 2u);
  EXPECT_EQ(mine.at("items").at(0).at("pod"), "b");
  EXPECT_EQ(mine.at("items").at(0).at("node"), "gpu-1");
  EXPECT_TRUE(read(slices_document(api_, "team-b")).at("items").as_array().empty());
}

TEST_F(ClusterView, WaitingPodsByPriority) {
  put_pod("low", "1", true);
  put_pod("high", "9", true);
  put_pod("placed", "5", false);
  const json::value document = read(waiting_document(api_, ""));
  const json::array& items = document.at("items").as_array();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].at("pod"), "high");
  EXPECT_EQ(items[1].at("pod"), "low");
  EXPECT_EQ(items[0].at("asks"), "0.3 GPU");
  EXPECT_EQ(items[0].at("message"), "0.3 GPU is free nowhere");
}

TEST_F(ClusterView, APodIsExplainedWithItsReasonAndEvents) {
  const json::object pod = put_pod("train", "1", true);
  api_.put("/api/v1/events",
           {{"metadata", json::object{{"name", "e"}, {"namespace", "team-a"}}},
            {"reason", "DivvyQueued"},
            {"message", "waits in queue default"},
            {"lastTimestamp", "2026-11-18T03:00:00Z"},
            {"involvedObject", json::object{{"uid", pod.at("metadata").at("uid")}}}});
  const json::value document = read(pod_document(api_, "team-a", "train"));
  EXPECT_EQ(document.at("state"), "waiting");
  EXPECT_EQ(document.at("reason"), "NoRoom");
  EXPECT_EQ(document.at("claim"), "divvy-train");
  ASSERT_EQ(document.at("events").as_array().size(), 1u);
  EXPECT_EQ(document.at("events").at(0).at("message"), "waits in queue default");
  EXPECT_EQ(pod_document(api_, "team-a", "gone").error().code, ErrorCode::kNotFound);
}

TEST_F(ClusterView, APodWithItsSlicesShowsThem) {
  put_gpu_node({});
  put_pod("train", "1", false);
  put_claim("divvy-train", "train", "s-1", 300);
  const json::value document = read(pod_document(api_, "team-a", "train"));
  EXPECT_EQ(document.at("state"), "placed");
  ASSERT_EQ(document.at("slices").as_array().size(), 1u);
  EXPECT_EQ(document.at("slices").at(0).at("node"), "gpu-1");
}

TEST_F(ClusterView, CapacityIsWhatTheControllerWroteOrWhatIsMissing) {
  const auto none = capacity_document(api_);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("there is no CapacityPlan divvy"));
  api_.put("/apis/divvy.dev/v1/capacityplans", {{"metadata", json::object{{"name", "divvy"}}},
                                                {"status", json::object{{"nodesWanted", 2}}}});
  EXPECT_EQ(capacity_document(api_).value(), R"({"nodesWanted":2})");
}

}  // namespace
}  // namespace divvy::kube
