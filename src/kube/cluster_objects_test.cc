#include "kube/cluster_objects.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kube/object_names.h"
#include "kube/time_stamp.h"
#include "model/testing.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

json::object named(std::string_view name) {
  return {{"name", name}, {"namespace", "a"}, {"uid", "u-1"}, {"resourceVersion", "7"}};
}

TEST(TimeStamp, IsReadAndWrittenAsKubernetesDoes) {
  const auto at = read_time_stamp("2026-11-18T03:05:35Z");
  ASSERT_TRUE(at);
  EXPECT_EQ(time_stamp(*at), "2026-11-18T03:05:35Z");
  EXPECT_EQ(read_time_stamp("2026-11-18T03:05:35.000000Z"), at);
  EXPECT_EQ(read_time_stamp("2026-11-18T05:05:35+02:00"), at);
  EXPECT_EQ(*read_time_stamp("2026-11-18T03:05:35.25Z") - *at, std::chrono::milliseconds(250));
  for (const char* const wrong :
       {"", "2026", "2026-13-18T03:05:35Z", "2026-11-18T03:05:35", "2026-11-18 03:05:35Z",
        "2026-11-18T03:05:35.Z", "2026-02-30T03:05:35Z", "9999-11-18T03:05:35Z"}) {
    EXPECT_FALSE(read_time_stamp(wrong)) << wrong;
  }
}

TEST(Allocation, IsReadAsItWasWritten) {
  Allocation allocation;
  allocation.node = "node-a";
  allocation.at = *read_time_stamp("2026-11-18T03:05:35Z");
  allocation.job_class = model::JobClass::kLatency;
  for (const std::uint32_t share : {1000U, 300U}) {
    allocation.slices.push_back({"main", fmt::format("s-{}", share),
                                 *model::Slice::create(model::test_uuid(share), gib(10),
                                                       Share(share), model::ShareKind::kCap)});
  }
  const json::object claim{{"status", json::object{{"allocation", write_allocation(allocation)}}}};
  const auto read = read_allocation(claim);
  ASSERT_TRUE(read && *read);
  EXPECT_EQ(**read, allocation);
}

TEST(Allocation, OfAnotherDriverIsNone) {
  json::object claim{{"status",
                      {{"allocation",
                        {{"devices",
                          {{"results", json::array{json::object{{"driver", "gpu.example.com"},
                                                                {"pool", "n"}}}}}}}}}}};
  const auto read = read_allocation(claim);
  ASSERT_TRUE(read);
  EXPECT_FALSE(*read);
}

TEST(Allocation, WithoutParametersIsRefused) {
  const json::object result{
      {"driver", kDriver}, {"pool", "n"}, {"device", "s-1"}, {"request", "main"}};
  json::object claim{
      {"status", {{"allocation", {{"devices", {{"results", json::array{result}}}}}}}}};
  EXPECT_FALSE(read_allocation(claim));
}

TEST(ClusterObjects, APodOfOthersIsNone) {
  const auto read = read_pod({{"metadata", named("web")}, {"spec", json::object()}});
  ASSERT_TRUE(read);
  EXPECT_FALSE(*read);
}

TEST(ClusterObjects, AnObjectWithoutUidOrVersionIsRefused) {
  for (const char* const field : {"name", "uid", "resourceVersion"}) {
    json::object metadata = named("x");
    metadata.erase(field);
    EXPECT_FALSE(read_object({{"metadata", std::move(metadata)}})) << field;
  }
}

TEST(ClusterObjects, TolerationsMatchAsKubernetesSays) {
  const Taint taint{"team", "b", "NoSchedule"};
  EXPECT_TRUE(tolerates({"team", "b", "NoSchedule", false}, taint));
  EXPECT_TRUE(tolerates({"team", "b", "", false}, taint));
  EXPECT_TRUE(tolerates({"team", "", "", true}, taint));
  EXPECT_TRUE(tolerates({"", "", "", true}, taint));
  EXPECT_FALSE(tolerates({"team", "a", "", false}, taint));
  EXPECT_FALSE(tolerates({"team", "b", "NoExecute", false}, taint));
  EXPECT_FALSE(tolerates({"", "", "", false}, taint));
}

TEST(ClusterObjects, ANodeIsReadyCordonedAndTainted) {
  const json::object ready{{"type", "Ready"}, {"status", "True"}};
  const json::object taint{{"key", "gpu"}, {"effect", "NoSchedule"}};
  const json::object known{{"key", "node.kubernetes.io/unschedulable"}, {"effect", "NoSchedule"}};
  const auto node =
      read_node({{"metadata", named("n")},
                 {"spec", {{"unschedulable", true}, {"taints", json::array{taint, known}}}},
                 {"status", {{"conditions", json::array{ready}}}}});
  ASSERT_TRUE(node);
  EXPECT_TRUE(node->ready);
  EXPECT_TRUE(node->unschedulable);
  ASSERT_EQ(node->taints.size(), 1U);
  EXPECT_EQ(to_string(node->taints[0]), "gpu=:NoSchedule");
}

}  // namespace
}  // namespace divvy::kube
