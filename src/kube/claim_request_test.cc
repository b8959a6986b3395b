#include "kube/claim_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace divvy::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace json = boost::json;

json::object claim(const std::string& parameters,
                   const std::string& requests =
                       R"([{"name": "gpu", "exactly": {"deviceClassName": "divvy.dev"}}])") {
  return json::parse(R"({"spec": {"devices": {"requests": )" + requests +
                     R"(, "config": [{"opaque": {"driver": "divvy.dev", "parameters": )" +
                     parameters + "}}]}}}")
      .as_object();
}

std::string slice(const std::string& fields) {
  return R"({"apiVersion": "divvy.dev/v1", "kind": "SliceRequest")" +
         (fields.empty() ? "" : ", " + fields) + "}";
}

std::string refusal(const json::object& document) {
  const auto request = read_claim_request(document, {});
  return request ? "it was read" : request.error().message;
}

TEST(ClaimRequest, ReadsTheParameters) {
  const auto request = read_claim_request(
      claim(slice(R"("gpu": "0.3", "gpuMemory": "10Gi", "cap": true, "class": "latency",
                     "models": ["H200"], "topology": "numa")")),
      {.queue = "research"});
  ASSERT_TRUE(request.has_value() && request->has_value());
  const model::JobSpec& spec = (*request)->spec;
  EXPECT_EQ((*request)->dialect, "claim");
  EXPECT_THAT((*request)->containers, ElementsAre("gpu"));
  EXPECT_EQ(spec.request.share(), Share(300));
  EXPECT_EQ(spec.request.memory(), gib(10));
  EXPECT_EQ(spec.request.kind(), model::ShareKind::kCap);
  EXPECT_THAT(spec.request.allowed_models(), ElementsAre("H200"));
  EXPECT_EQ(spec.request.topology(), model::TopologyPreference::kSameNuma);
  EXPECT_EQ(spec.job_class, model::JobClass::kLatency);
  EXPECT_EQ(spec.queue, "research");
}

TEST(ClaimRequest, FollowsThePolicyOfItsNamespaceAsPodsDo) {
  const DialectPolicy policy{.defaults = {.models = {"H200"},
                                          .models_denied = {"PCIe"},
                                          .topology = model::TopologyPreference::kSameNuma,
                                          .mode = model::GpuMode::kMps,
                                          .job_class = model::JobClass::kLatency,
                                          .cap = true}};
  const auto plain = read_claim_request(claim(slice(R"("gpu": "0.3")")), policy);
  ASSERT_TRUE(plain.has_value() && plain->has_value());
  const model::JobSpec& spec = (*plain)->spec;
  EXPECT_THAT(spec.request.allowed_models(), ElementsAre("H200"));
  EXPECT_THAT(spec.request.denied_models(), ElementsAre("PCIe"));
  EXPECT_EQ(spec.request.topology(), model::TopologyPreference::kSameNuma);
  EXPECT_EQ(spec.request.kind(), model::ShareKind::kCap);
  EXPECT_EQ(spec.job_class, model::JobClass::kLatency);
  EXPECT_EQ(spec.mode, model::GpuMode::kMps);

  const auto own = read_claim_request(
      claim(slice(R"("gpu": "0.3", "cap": false, "class": "batch", "models": ["H100"],
                     "topology": "any")")),
      policy);
  ASSERT_TRUE(own.has_value() && own->has_value());
  EXPECT_THAT((*own)->spec.request.allowed_models(), ElementsAre("H100"));
  EXPECT_THAT((*own)->spec.request.denied_models(), ElementsAre("PCIe")) << "to all";
  EXPECT_EQ((*own)->spec.request.topology(), model::TopologyPreference::kAny);
  EXPECT_EQ((*own)->spec.request.kind(), model::ShareKind::kGuarantee);
  EXPECT_EQ((*own)->spec.job_class, model::JobClass::kBatch);

  const auto whole = read_claim_request(claim(slice(R"("gpu": "2")")), policy);
  ASSERT_TRUE(whole.has_value() && whole->has_value());
  EXPECT_EQ((*whole)->spec.mode, std::nullopt);
  EXPECT_EQ((*whole)->spec.request.kind(), model::ShareKind::kGuarantee);
}

TEST(ClaimRequest, WithoutParametersIsAWholeGpu) {
  const json::object document = json::parse(R"({"spec": {"devices": {"requests": [
        {"name": "a", "exactly": {"deviceClassName": "divvy.dev"}},
        {"name": "nic", "exactly": {"deviceClassName": "nic.example"}},
        {"name": "b", "exactly": {"deviceClassName": "divvy.dev"}}]}}})")
                                    .as_object();
  const auto request = read_claim_request(document, {});
  ASSERT_TRUE(request.has_value() && request->has_value());
  EXPECT_THAT((*request)->containers, ElementsAre("a", "b"));
  EXPECT_EQ((*request)->spec.request.share(), Share(1000));
  EXPECT_EQ((*request)->spec.members(), 2u);
}

TEST(ClaimRequest, IsNothingForOtherClasses) {
  EXPECT_EQ(read_claim_request({}, {}), std::nullopt);
  EXPECT_EQ(read_claim_request(
                claim(slice(""), R"([{"name": "g", "exactly": {"deviceClassName": "x"}}])"), {}),
            std::nullopt);
}

TEST(ClaimRequest, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(refusal(claim(slice(R"("gpu": 0.3)"))),
              StartsWith("spec.devices.config[0].opaque.parameters.gpu: "));
  EXPECT_THAT(refusal(claim(slice(""))), HasSubstr("how much of a GPU"));
  EXPECT_THAT(refusal(claim(slice(R"("gpus": "1")"))), HasSubstr("did you mean gpu?"));
  EXPECT_THAT(refusal(claim(R"({"kind": "Slice"})")), HasSubstr("SliceRequest"));
  EXPECT_THAT(refusal(claim(slice(R"("gpu": "0")"))), HasSubstr("no GPU"));
  EXPECT_THAT(refusal(claim(slice(R"("gpu": "1")"), R"([{"name": "g", "exactly":
                  {"deviceClassName": "divvy.dev", "count": 2}}])")),
              HasSubstr("exactly.count"));
  EXPECT_THAT(refusal(claim(slice(R"("gpu": "1")"), R"([{"name": "g", "firstAvailable":
                  [{"deviceClassName": "divvy.dev"}]}])")),
              HasSubstr("firstAvailable"));
}

}  // namespace
}  // namespace divvy::kube
