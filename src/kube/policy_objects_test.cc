// Policies of namespaces: what their documents say, which one holds, what pods get by them, and
// what is told in their status.
#include "kube/policy_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kube/cluster_queue_fixture.h"
#include "kube/pod_testing.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kPolicies = "/apis/divvy.dev/v1/policies";

json::object policy_document(const std::string& name, const char* spec) {
  return {
      {"metadata", json::object{{"name", name}, {"uid", "u-" + name}, {"resourceVersion", "1"}}},
      {"spec", json::parse(spec)}};
}

PolicyObject policy(const std::string& name, const char* spec) {
  auto read = read_policy(policy_document(name, spec));
  EXPECT_TRUE(read.has_value());
  return *std::move(read);
}

json::object space(const std::string& name, json::object labels = {}) {
  return {{"metadata", json::object{{"name", name}, {"labels", std::move(labels)}}}};
}

constexpr const char* kAll = R"({"namespaces": ["a"],
    "dialects": {"nvidiaGpus": "replicas", "replicasPerGpu": 4, "leftAlone": ["hami", "kai"]},
    "placement": {"models": ["H200"], "notModels": ["PCIe"], "topology": "numa"},
    "sharing": {"mode": "mps", "class": "latency", "cap": true}})";

TEST(Policy, SaysHowPodsAreRead) {
  const PolicyObject read = policy("serving", kAll);
  EXPECT_EQ(read.problem, "");
  const DialectPolicy over = read.over({.queue = "research"});
  EXPECT_EQ(over.queue, "research") << "of which it says nothing";
  EXPECT_EQ(over.nvidia_gpus, NvidiaGpus::kReplicas);
  EXPECT_EQ(over.replicas_per_gpu, 4);
  EXPECT_THAT(over.left_alone, ElementsAre("hami", "kai"));
  const DialectPolicy nothing =
      policy("empty", R"({"namespaces": ["a"]})")
          .over({.nvidia_gpus = NvidiaGpus::kLeave, .left_alone = {"kai"}});
  EXPECT_EQ(nothing.nvidia_gpus, NvidiaGpus::kLeave);
  EXPECT_THAT(nothing.left_alone, ElementsAre("kai"));
}

TEST(Policy, HoldsForPodsThatSayNothing) {
  const DialectPolicy over = policy("serving", kAll).over({});
  const auto plain = read_pod_request(testing::pod_of({}, {{"divvy.dev/gpu", "0.3"}}), over);
  ASSERT_TRUE(plain && *plain);
  const model::JobSpec& spec = (*plain)->spec;
  EXPECT_EQ(spec.mode, model::GpuMode::kMps);
  EXPECT_EQ(spec.job_class, model::JobClass::kLatency);
  EXPECT_EQ(spec.request.kind(), model::ShareKind::kCap);
  EXPECT_THAT(spec.request.allowed_models(), ElementsAre("H200"));
  EXPECT_THAT(spec.request.denied_models(), ElementsAre("PCIe"));

  const auto own = read_pod_request(testing::pod_of({}, {{"divvy.dev/gpu", "0.3"},
                                                         {"divvy.dev/class", "batch"},
                                                         {"divvy.dev/cap", "false"},
                                                         {"divvy.dev/model", "H100"},
                                                         {"divvy.dev/not-model", "SXM"},
                                                         {"divvy.dev/topology", "any"}}),
                                    over);
  ASSERT_TRUE(own && *own);
  EXPECT_EQ((*own)->spec.job_class, model::JobClass::kBatch);
  EXPECT_EQ((*own)->spec.request.kind(), model::ShareKind::kGuarantee);
  EXPECT_EQ((*own)->spec.request.topology(), model::TopologyPreference::kAny);
  EXPECT_THAT((*own)->spec.request.allowed_models(), ElementsAre("H100"));
  EXPECT_THAT((*own)->spec.request.denied_models(), ElementsAre("SXM", "PCIe"))
      << "what it denies it denies to everybody";
}

TEST(Policy, LeavesWholeGpusAlone) {
  const DialectPolicy over = policy("serving", kAll).over({});
  const auto whole = read_pod_request(testing::pod_of({}, {{"divvy.dev/gpu", "2"}}), over);
  ASSERT_TRUE(whole && *whole);
  EXPECT_FALSE((*whole)->spec.mode);
  EXPECT_EQ((*whole)->spec.request.kind(), model::ShareKind::kGuarantee);
  EXPECT_EQ((*whole)->spec.request.topology(), model::TopologyPreference::kSameNuma);
}

TEST(Policy, RefusesWhatCannotBeMeantByItsField) {
  const auto problem = [](const char* spec) { return policy("p", spec).problem; };
  EXPECT_THAT(problem("{}"), HasSubstr("spec: it is about no namespace"));
  EXPECT_THAT(problem(R"({"namespaces": ["a"], "dialects": {"nvidiaGpus": "half"}})"),
              HasSubstr("spec: dialects: nvidiaGpus: "));
  EXPECT_THAT(problem(R"({"namespaces": ["a"], "dialects": {"nvidiaGpus": "replicas"}})"),
              HasSubstr("replicasPerGpu"));
  EXPECT_THAT(problem(R"({"namespaces": ["a"], "dialects": {"leftAlone": ["hammi"]}})"),
              HasSubstr("leftAlone: there is no dialect"));
  EXPECT_THAT(problem(R"({"namespaces": ["a"], "sharing": {"mode": "magic"}})"),
              HasSubstr("sharing: mode: "));
}

TEST(Policy, TheOneThatNamesANamespaceComesBeforeOneThatFindsItByLabels) {
  PolicyObjects policies;
  policies.emplace("a-by-label", policy("a-by-label", R"({"namespaceLabels": {"team": "x"}})"));
  policies.emplace("b-by-name", policy("b-by-name", R"({"namespaces": ["chat"]})"));
  policies.emplace("c-by-name", policy("c-by-name", R"({"namespaces": ["chat"]})"));
  policies.emplace("a-broken", policy("a-broken", R"({"namespaces": ["chat"],
                                                      "sharing": {"mode": "magic"}})"));
  const auto name = [&](const json::object& where) {
    const PolicyObject* const found = find_policy(policies, where);
    return found == nullptr ? "" : found->object.name;
  };
  EXPECT_EQ(name(space("chat", {{"team", "x"}})), "b-by-name");
  EXPECT_EQ(name(space("search", {{"team", "x"}, {"other", "y"}})), "a-by-label");
  EXPECT_EQ(name(space("search", {{"team", "y"}})), "");
  EXPECT_EQ(name(space("search")), "");
}

class ClusterQueuePolicies : public testing::ClusterQueueTest {
 protected:
  void create_policy(const std::string& name, const char* spec) {
    cluster_.create(kPolicies,
                    {{"metadata", json::object{{"name", name}}}, {"spec", json::parse(spec)}});
  }
  std::string accepted(const std::string& name) {
    const json::object found = *cluster_.api().get(std::string(kPolicies) + "/" + name);
    const json::object& condition = array_at(found, {"status", "conditions"}).at(0).as_object();
    return fmt::format("{} {} {}", number_at(found, {"status", "namespaces"}).value_or(99),
                       text_at(condition, {"status"}), text_at(condition, {"reason"}));
  }
};

TEST_F(ClusterQueuePolicies, TheirStatusSaysForHowManyNamespacesTheyHold) {
  create_policy("first", R"({"namespaces": ["team-a"]})");
  create_policy("second", R"({"namespaces": ["team-a"]})");
  create_policy("wrong", R"({"namespaces": ["team-a"], "sharing": {"mode": "magic"}})");
  controller_.work();
  EXPECT_EQ(accepted("first"), "1 True Holds");
  EXPECT_EQ(accepted("second"), "0 True HoldsInPart");
  EXPECT_EQ(accepted("wrong"), "0 False Refused");
  const auto written = std::ranges::count(controller_.done, ActionKind::kWritePolicy);
  controller_.work();
  EXPECT_EQ(std::ranges::count(controller_.done, ActionKind::kWritePolicy), written)
      << "nothing is written while nothing changes";
}

TEST_F(ClusterQueuePolicies, AFreshControllerFindsTheirStatusAsItIs) {
  create_policy("first", R"({"namespaces": ["team-a"]})");
  controller_.work();
  testing::TestController fresh(cluster_, 2);
  fresh.work();
  EXPECT_EQ(std::ranges::count(fresh.done, ActionKind::kWritePolicy), 0);
}

TEST_F(ClusterQueuePolicies, WhatTheyDenyIsDeniedToClaimsWrittenByHandToo) {
  create_policy("frugal", R"({"namespaces": ["team-a"], "placement": {"notModels": ["H200"]}})");
  controller_.work();
  cluster_.create_claim("mine", "0.3");
  cluster_.create_pod({.name = "sly", .claim = "mine"});
  controller_.work();
  EXPECT_EQ(node_of("sly"), "");
  EXPECT_THAT(condition("sly"), HasSubstr("False "));
}

}  // namespace
}  // namespace divvy::kube
