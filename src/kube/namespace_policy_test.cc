#include "kube/namespace_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace divvy::kube {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

json::object name_space(json::object labels, json::object annotations = {}) {
  return {{"metadata", json::object{{"name", "team-a"},
                                    {"labels", std::move(labels)},
                                    {"annotations", std::move(annotations)}}}};
}

std::string refusal(const json::object& document) {
  const auto policy = namespace_policy(document, {});
  return policy ? "" : policy.error().message;
}

TEST(NamespacePolicy, SaysWhatTheClusterSaysWhereTheNamespaceSaysNothing) {
  const DialectPolicy usual{.nvidia_gpus = NvidiaGpus::kLeave, .left_alone = {"kai"}};
  EXPECT_EQ(namespace_policy({}, usual), usual);
  EXPECT_EQ(namespace_policy(name_space({{"other", "label"}}), usual), usual);
}

TEST(NamespacePolicy, ReadsLabelsAndTheAnnotation) {
  const auto policy = namespace_policy(
      name_space({{"divvy.dev/nvidia-gpus", "replicas"}, {"divvy.dev/replicas-per-gpu", "4"}},
                 {{"divvy.dev/left-alone", "hami, kai"}}),
      {});
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(policy->nvidia_gpus, NvidiaGpus::kReplicas);
  EXPECT_EQ(policy->replicas_per_gpu, 4U);
  EXPECT_THAT(policy->left_alone, ::testing::ElementsAre("hami", "kai"));
}

TEST(NamespacePolicy, RefusesWhatCannotBeMeantWithTheFieldAndTheRemedy) {
  EXPECT_THAT(refusal(name_space({{"divvy.dev/nvidia-gpus", "half"}})),
              HasSubstr("namespace team-a, metadata.labels[\"divvy.dev/nvidia-gpus\"]: \"half\" is "
                        "no meaning of nvidia.com/gpu"));
  EXPECT_THAT(refusal(name_space({{"divvy.dev/nvidia-gpus", "replicas"}})),
              HasSubstr("divvy.dev/replicas-per-gpu"));
  for (const char* number : {"0", "-1", "4x", "1001", "99999999999"}) {
    EXPECT_THAT(refusal(name_space({{"divvy.dev/replicas-per-gpu", number}})),
                HasSubstr("write 1 to 1000"))
        << number;
  }
  EXPECT_THAT(refusal(name_space({}, {{"divvy.dev/left-alone", "hammi"}})),
              HasSubstr("there is no dialect \"hammi\""));
}

}  // namespace
}  // namespace divvy::kube
