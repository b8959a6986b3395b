#include "kube/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kube/admission_review.h"
#include "kube/admission_testing.h"
#include "kube/pod_testing.h"
#include "kube/request_annotation.h"

namespace divvy::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using namespace testing;  // NOLINT(google-build-using-namespace): pods and reviews for tests
namespace json = boost::json;

constexpr const char* kClaim = "divvy-aaaaaaaaaaaaaaaaaaaa";
constexpr const char* kController = "system:serviceaccount:divvy-system:divvy-controller";

Answer mutate(const json::object& pod, const ReviewParts& parts = {},
              const AdmissionPolicy& policy = {}) {
  return answer_of(review_mutation(review_of(pod, parts), policy, [] { return kClaim; }));
}

Answer validate(const json::object& object, const ReviewParts& parts = {}) {
  AdmissionPolicy policy;
  policy.trusted_users = {kController};
  return answer_of(review_validation(review_of(object, parts), policy));
}

json::object admitted(const json::object& pod) {
  const Answer answer = mutate(pod);
  EXPECT_TRUE(answer.allowed) << answer.message;
  return patched(pod, answer);
}

json::value at(const json::object& document, const std::string& pointer) {
  boost::system::error_code code;
  const json::value root(document);
  const json::value* value = root.find_pointer(pointer, code);
  return value == nullptr ? json::value() : *value;
}

TEST(Admission, TurnsARequestIntoClaimGateAndAnnotation) {
  const json::object result =
      admitted(pod_of({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpumem", "3000"}, {"cpu", "2"}}));
  EXPECT_EQ(at(result, "/spec/containers/0/resources/limits"), (json::value{{"cpu", "2"}}));
  EXPECT_EQ(at(result, "/spec/containers/0/resources/requests"), (json::value{{"cpu", "2"}}));
  EXPECT_EQ(at(result, "/spec/containers/0/resources/claims"),
            json::parse(R"([{"name": "divvy", "request": "main"}])"));
  EXPECT_EQ(at(result, "/spec/resourceClaims"), json::parse(R"([{"name": "divvy",
                             "resourceClaimName": "divvy-aaaaaaaaaaaaaaaaaaaa"}])"));
  EXPECT_EQ(at(result, "/spec/schedulingGates"), json::parse(R"([{"name": "divvy.dev/queue"}])"));
  const auto request = annotated_request(result);
  ASSERT_TRUE(request.has_value() && request->has_value());
  EXPECT_EQ((*request)->dialect, "hami");
  EXPECT_EQ((*request)->spec.request.memory(), mib(3000));
}

TEST(Admission, KeepsWhatIsNotItsOwn) {
  json::object document = pod_of({}, {{"divvy.dev/gpu", "0.3"}, {"note", "mine"}});
  document["spec"].as_object()["resourceClaims"] =
      json::parse(R"([{"name": "net", "resourceClaimName": "my-net"}])");
  document["spec"].as_object()["schedulingGates"] =
      json::parse(R"([{"name": "kueue.x-k8s.io/a"}])");
  document["spec"].at("containers").at(0).as_object()["resources"] =
      json::parse(R"({"claims": [{"name": "net"}]})");
  const json::object result = admitted(document);
  EXPECT_EQ(at(result, "/metadata/annotations/note"), json::value("mine"));
  EXPECT_EQ(at(result, "/spec/resourceClaims/0/resourceClaimName"), json::value("my-net"));
  EXPECT_EQ(at(result, "/spec/resourceClaims/1/resourceClaimName"), json::value(kClaim));
  EXPECT_EQ(at(result, "/spec/schedulingGates/0/name"), json::value("kueue.x-k8s.io/a"));
  EXPECT_EQ(at(result, "/spec/containers/0/resources/claims/0/name"), json::value("net"));
  EXPECT_EQ(at(result, "/spec/containers/0/resources/claims/1/name"), json::value("divvy"));
}

TEST(Admission, InitContainersReferToTheSliceOfTheFirstContainer) {
  const json::object result =
      admitted(pod({.containers = {container("main", {{"nvidia.com/gpu", "1"}})},
                    .init_containers = {container("warm", {{"nvidia.com/gpu", "1"}})}}));
  EXPECT_EQ(at(result, "/spec/initContainers/0/resources/claims"),
            json::parse(R"([{"name": "divvy", "request": "main"}])"));
  EXPECT_EQ(at(result, "/spec/initContainers/0/resources/limits"), json::object{});
}

TEST(Admission, PodsOfANodeGetAClaimAndNoGate) {
  json::object document = pod_of({}, {{"divvy.dev/gpu", "0.3"}});
  document["spec"].as_object()["nodeName"] = "gpu-1";
  const json::object result = admitted(document);
  EXPECT_EQ(at(result, "/spec/resourceClaims/0/resourceClaimName"), json::value(kClaim));
  EXPECT_TRUE(at(result, "/spec/schedulingGates").is_null());
}

TEST(Admission, GivesPodsOfAForeignSchedulerToTheClustersOwn) {
  json::object document = pod_of({}, {{"gpu-fraction", "0.5"}});
  document["spec"].as_object()["schedulerName"] = "kai-scheduler";
  EXPECT_EQ(at(admitted(document), "/spec/schedulerName"), json::value("default-scheduler"));
  document["spec"].as_object()["schedulerName"] = "my-scheduler";
  EXPECT_EQ(at(admitted(document), "/spec/schedulerName"), json::value("my-scheduler"));
}

TEST(Admission, IsIdempotent) {
  for (const json::object& document :
       {pod_of({{"nvidia.com/gpumem", "3000"}}), pod_of({}, {{"gpu-fraction", "0.5"}}),
        pod_of({}, {{"divvy.dev/gpu", "0.3"}}), pod_of({{"aliyun.com/gpu-mem", "3"}})}) {
    const json::object once = admitted(document);
    EXPECT_THAT(mutate(once).patch, IsEmpty());
  }
}

TEST(Admission, NeverTrustsAClaimThatCameWithThePod) {
  json::object copy = admitted(pod_of({{"nvidia.com/gpumem", "3000"}}));
  copy["spec"].at("resourceClaims").at(0).as_object()["resourceClaimName"] =
      "divvy-bbbbbbbbbbbbbbbbbbbb";
  const json::object result = admitted(copy);
  EXPECT_EQ(at(result, "/spec/resourceClaims"), json::parse(R"([{"name": "divvy",
                             "resourceClaimName": "divvy-aaaaaaaaaaaaaaaaaaaa"}])"));
}

TEST(Admission, ReplacesAForgedAnnotation) {
  json::object document = pod_of({}, {{"divvy.dev/gpu", "0.3"}});
  document["metadata"].at("annotations").as_object()["divvy.dev/request"] = "{\"version\": 7}";
  const auto request = annotated_request(admitted(document));
  ASSERT_TRUE(request.has_value() && request->has_value());
  EXPECT_EQ((*request)->spec.request.share(), Share(300));
}

TEST(Admission, RefusesAForgedAnnotationThatAsksForWhatNoPodCan) {
  json::object forged = admitted(pod_of({{"nvidia.com/gpumem", "3000"}}));
  json::object annotation =
      json::parse(std::string(at(forged, "/metadata/annotations/divvy.dev~1request").as_string()))
          .as_object();
  annotation["spec"].as_object()["hold_for_capacity"] = true;
  forged["metadata"].at("annotations").as_object()["divvy.dev/request"] =
      json::serialize(annotation);
  const Answer answer = mutate(forged);
  EXPECT_FALSE(answer.allowed);
  EXPECT_THAT(answer.message, HasSubstr("what a pod cannot ask for"));
}

TEST(Admission, AForgedAnnotationGetsNoModelThatTheNamespaceDenies) {
  AdmissionPolicy policy;
  policy.namespaces = [](std::string_view) {
    return DialectPolicy{.defaults = {.models_denied = {"H200"}}};
  };
  // Whatever was written before the policy was there, or by hand.
  json::object forged = admitted(pod_of({{"nvidia.com/gpumem", "3000"}}));
  const Answer answer = mutate(forged, {}, policy);
  ASSERT_TRUE(answer.allowed) << answer.message;
  const json::object result = patched(forged, answer);
  const auto request = annotated_request(result);
  ASSERT_TRUE(request.has_value() && request->has_value());
  EXPECT_EQ((*request)->spec.request.denied_models(), std::vector<std::string>{"H200"});
  // Asked again about its own result it changes nothing.
  const auto again = annotated_request(patched(result, mutate(result, {}, policy)));
  ASSERT_TRUE(again.has_value() && again->has_value());
  EXPECT_EQ(**again, **request);
}

TEST(Admission, AForgedAnnotationIsRefusedWhereTheNamespaceSaysSomethingWrong) {
  AdmissionPolicy policy;
  policy.namespaces = [](std::string_view) -> Result<DialectPolicy> {
    return err(ErrorCode::kInvalidArgument, "namespace team-a: a label is wrong");
  };
  const json::object forged = admitted(pod_of({{"nvidia.com/gpumem", "3000"}}));
  EXPECT_FALSE(mutate(forged, {}, policy).allowed);
  EXPECT_TRUE(mutate(pod_of({{"cpu", "2"}}), {}, policy).allowed);
}

TEST(Admission, NamesTheLimitRangeThatPutsGpusBack) {
  json::object document = admitted(pod_of({{"nvidia.com/gpumem", "3000"}}));
  document["spec"]
      .at("containers")
      .at(0)
      .at("resources")
      .at("limits")
      .as_object()["nvidia.com/gpu"] = "1";
  const Answer answer = mutate(document);
  EXPECT_FALSE(answer.allowed);
  EXPECT_THAT(answer.message, HasSubstr("LimitRange"));
}

TEST(Admission, RefusesReferencesToClaimsOfOthers) {
  json::object thief = pod({});
  thief["spec"].as_object()["resourceClaims"] =
      json::parse(R"([{"name": "x", "resourceClaimName": "divvy-bbbbbbbbbbbbbbbbbbbb"}])");
  EXPECT_THAT(mutate(thief).message, HasSubstr("spec.resourceClaims[0].resourceClaimName"));
  EXPECT_THAT(validate(thief).message, HasSubstr("spec.resourceClaims[0].resourceClaimName"));
  json::object both = pod_of({}, {{"divvy.dev/gpu", "0.3"}});
  both["spec"].as_object()["resourceClaims"] = thief["spec"].at("resourceClaims");
  EXPECT_FALSE(mutate(both).allowed);
  json::object taken = pod_of({}, {{"divvy.dev/gpu", "0.3"}});
  taken["spec"].as_object()["resourceClaims"] =
      json::parse(R"([{"name": "divvy", "resourceClaimName": "mine"}])");
  EXPECT_THAT(mutate(taken).message, HasSubstr("give yours another"));
}

TEST(Admission, LeavesClaimsOfOnesOwnAlone) {
  json::object document = pod({});
  document["spec"].as_object()["resourceClaims"] =
      json::parse(R"([{"name": "gpu", "resourceClaimName": "mine"}])");
  const Answer answer = mutate(document);
  EXPECT_TRUE(answer.allowed);
  EXPECT_THAT(answer.patch, IsEmpty());
}

TEST(Admission, LeavesEverythingElseAlone) {
  const json::object asks = pod_of({{"nvidia.com/gpu", "1"}});
  EXPECT_THAT(mutate(pod({})).patch, IsEmpty());
  EXPECT_THAT(mutate(asks, {.name_space = "kube-system"}).patch, IsEmpty());
  EXPECT_THAT(mutate(asks, {.operation = "UPDATE"}).patch, IsEmpty());
  EXPECT_THAT(mutate(asks, {.resource = "services"}).patch, IsEmpty());
  EXPECT_THAT(
      mutate(pod_of({{"nvidia.com/gpu", "1"}}, {{"kubernetes.io/config.mirror", "x"}})).patch,
      IsEmpty());
  AdmissionPolicy policy;
  policy.namespaces = [](std::string_view name) -> Result<DialectPolicy> {
    return DialectPolicy{.nvidia_gpus = name == "team-a" ? NvidiaGpus::kLeave : NvidiaGpus::kWhole};
  };
  EXPECT_THAT(mutate(asks, {}, policy).patch, IsEmpty());
  EXPECT_FALSE(mutate(asks, {.name_space = "team-b"}, policy).patch.empty());
}

TEST(Admission, ANamespaceThatSaysSomethingWrongHindersOnlyPodsThatAsk) {
  AdmissionPolicy policy;
  policy.namespaces = [](std::string_view) -> Result<DialectPolicy> {
    return err(ErrorCode::kInvalidArgument, "namespace team-a: no");
  };
  const Answer answer = mutate(pod_of({{"nvidia.com/gpu", "1"}}), {}, policy);
  EXPECT_FALSE(answer.allowed);
  EXPECT_EQ(answer.message, "namespace team-a: no");
  EXPECT_TRUE(mutate(pod({}), {}, policy).allowed);
}

TEST(Admission, RefusesWithTheFieldAndTheRemedy) {
  const Answer answer = mutate(pod_of({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpucores", "101"}}));
  EXPECT_FALSE(answer.allowed);
  EXPECT_THAT(answer.message,
              HasSubstr("spec.containers[0].resources.limits[\"nvidia.com/gpucores\"]: "));
}

TEST(Admission, PassesWarningsOn) {
  const Answer answer = mutate(pod_of({{"nvidia.com/gpu", "1"}, {"nvidia.com/gpucores", "30"}}));
  EXPECT_TRUE(answer.allowed);
  EXPECT_THAT(answer.warnings, SizeIs(1));
}

TEST(Admission, WhatIsNoReviewIsAnError) {
  const auto names = [] { return std::string(kClaim); };
  for (const char* bytes :
       {"", "{", "[]", "{}", R"({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})",
        R"({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview",
            "request": {"uid": "a"}})"}) {
    EXPECT_FALSE(review_mutation(bytes, {}, names)) << bytes;
    EXPECT_FALSE(review_validation(bytes, {})) << bytes;
  }
}

TEST(Admission, ClaimNamesAreRandomAndFitTheContract) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    const std::string name = random_claim_name();
    EXPECT_THAT(name, MatchesRegex("divvy-[a-z0-9]+"));
    EXPECT_EQ(name.size(), 26u);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 100u);
}

// ---- the validating side ------------------------------------------------------------------------

TEST(Validation, TheRequestOfAPodCannotBeChanged) {
  const json::object before = admitted(pod_of({}, {{"divvy.dev/gpu", "0.3"}}));
  json::object after = before;
  after["metadata"].at("annotations").as_object()["divvy.dev/request"] = "{}";
  const ReviewParts update{.operation = "UPDATE", .user = kController, .old_object = before};
  EXPECT_FALSE(validate(after, update).allowed);
  after["metadata"].at("annotations").as_object().erase("divvy.dev/request");
  EXPECT_FALSE(validate(after, update).allowed);
  EXPECT_TRUE(validate(before, update).allowed);
}

TEST(Validation, OnlyTheControllerRemovesTheGate) {
  const json::object before = admitted(pod_of({}, {{"divvy.dev/gpu", "0.3"}}));
  json::object after = before;
  after["spec"].as_object().erase("schedulingGates");
  EXPECT_THAT(validate(after, {.operation = "UPDATE", .old_object = before}).message,
              HasSubstr("spec.schedulingGates"));
  EXPECT_TRUE(
      validate(after, {.operation = "UPDATE", .user = kController, .old_object = before}).allowed);
}

TEST(Validation, AnAnnotationThatTheWebhookDidNotWriteIsRefused) {
  EXPECT_FALSE(validate(pod_of({}, {{"divvy.dev/request", "{}"}})).allowed);
  EXPECT_TRUE(validate(admitted(pod_of({}, {{"divvy.dev/gpu", "0.3"}}))).allowed);
  EXPECT_TRUE(validate(pod({})).allowed);
}

TEST(Validation, OnlyTheControllerMakesClaimsWithItsNames) {
  const json::object claim{{"metadata", json::object{{"name", "divvy-bbbbbbbbbbbbbbbbbbbb"}}}};
  const json::object generated{{"metadata", json::object{{"generateName", "divvy-"}}}};
  const json::object own{{"metadata", json::object{{"name", "mine"}}}};
  const ReviewParts claims{.resource = "resourceclaims"};
  EXPECT_FALSE(validate(claim, claims).allowed);
  EXPECT_FALSE(validate(generated, claims).allowed);
  EXPECT_TRUE(validate(own, claims).allowed);
  EXPECT_TRUE(validate(claim, {.resource = "resourceclaims", .user = kController}).allowed);
}

// --- The second way ---

json::object by_slots(const json::object& pod) {
  AdmissionPolicy policy;
  policy.way = Way::kSlots;
  const Answer answer = mutate(pod, {}, policy);
  EXPECT_TRUE(answer.allowed) << answer.message;
  return patched(pod, answer);
}

TEST(Admission, TurnsARequestIntoSlotsGateAndAnnotationOnTheSecondWay) {
  const json::object result = by_slots(pod_of({{"nvidia.com/gpumem", "3000"}, {"cpu", "2"}}));
  const json::value resources{{"cpu", "2"}, {"divvy.dev/slot", "1"}};
  EXPECT_EQ(at(result, "/spec/containers/0/resources/limits"), resources);
  EXPECT_EQ(at(result, "/spec/containers/0/resources/requests"), resources);
  EXPECT_TRUE(at(result, "/spec/containers/0/resources/claims").is_null());
  EXPECT_TRUE(at(result, "/spec/resourceClaims").is_null());
  EXPECT_EQ(at(result, "/spec/schedulingGates"), json::parse(R"([{"name": "divvy.dev/queue"}])"));
  const auto request = annotated_request(result);
  ASSERT_TRUE(request && *request);
  EXPECT_EQ((*request)->way, Way::kSlots);
}

TEST(Admission, KeepsOthersHandsOffAllocationsInPods) {
  json::object before = by_slots(pod_of({{"nvidia.com/gpumem", "3000"}}));
  json::object after = before;
  after["metadata"].as_object()["annotations"].as_object()["divvy.dev/allocation"] = "{}";
  EXPECT_THAT(mutate(after).message, HasSubstr("divvy.dev/allocation"));
  EXPECT_THAT(validate(after).message, HasSubstr("only Divvy's controller writes it"));
  ReviewParts update{.operation = "UPDATE", .old_object = before};
  EXPECT_THAT(validate(after, update).message, HasSubstr("only Divvy's controller writes it"));
  update.user = kController;
  EXPECT_TRUE(validate(after, update).allowed);
  // Taking it out is no better.
  update = {.operation = "UPDATE", .old_object = after};
  EXPECT_FALSE(validate(before, update).allowed);
  EXPECT_TRUE(validate(after, update).allowed);
}

TEST(Admission, RefusesSlotsThatNobodyAskedASliceFor) {
  const Answer answer = validate(pod_of({{"divvy.dev/slot", "1"}}));
  EXPECT_FALSE(answer.allowed);
  EXPECT_THAT(answer.message, HasSubstr("spec.containers[0].resources.limits[\"divvy.dev/slot\"]"));
}

}  // namespace
}  // namespace divvy::kube
