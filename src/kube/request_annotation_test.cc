#include "kube/request_annotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/pod_testing.h"

namespace divvy::kube {
namespace {

using testing::container;
using ::testing::HasSubstr;
using testing::pod;
using testing::pod_of;
namespace json = boost::json;

PodRequest request_of(const json::object& document) {
  auto request = read_pod_request(document, {});
  EXPECT_TRUE(request.has_value() && request->has_value());
  // What is not part of the annotation.
  (*request)->resources.clear();
  (*request)->foreign_scheduler.clear();
  (*request)->warnings.clear();
  return **request;
}

json::object annotation_document() {
  return json::parse(write_request_annotation(request_of(pod_of({{"nvidia.com/gpumem", "3000"}}))))
      .as_object();
}

std::string refusal(const json::object& document) {
  const auto request = read_request_annotation(json::serialize(document));
  return request ? "it was read" : request.error().message;
}

TEST(RequestAnnotation, ReadsBackWhatWasWritten) {
  for (const json::object& document :
       {pod_of({{"nvidia.com/gpumem", "3000"}, {"nvidia.com/gpucores", "30"}},
               {{"nvidia.com/use-gputype", "A100"}, {"divvy.dev/priority", "5"}}),
        pod_of({}, {{"divvy.dev/gpu", "2.5"}, {"divvy.dev/class", "latency"}}),
        pod_of({},
               {{"divvy.dev/gpu", "0.3"}, {"divvy.dev/gang", "a"}, {"divvy.dev/gang-size", "2"}}),
        pod({.containers = {container("a", {{"nvidia.com/gpu", "1"}}),
                            container("b", {{"nvidia.com/gpu", "1"}})},
             .init_containers = {container("c", {{"nvidia.com/gpu", "1"}})}})}) {
    const PodRequest request = request_of(document);
    const auto again = read_request_annotation(write_request_annotation(request));
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(*again, request);
  }
}

TEST(RequestAnnotation, HasTheFieldsOfTheContract) {
  const json::object document = annotation_document();
  EXPECT_EQ(document.at("version"), json::value(1));
  EXPECT_EQ(document.at("dialect"), json::value("hami"));
  EXPECT_EQ(document.at("containers"), (json::value{"main"}));
  EXPECT_EQ(document.at("spec").at("gpu_memory"), json::value("3000MiB"));
  EXPECT_EQ(document.at("spec").at("members"), json::value(1));
  EXPECT_EQ(document.at("spec").at("holder"), json::value("slice"));
}

TEST(RequestAnnotation, RefusesWhatNoPodCanAskFor) {
  for (const auto& [field, value] : {std::pair<std::string, json::value>{"command", {"sh"}},
                                     {"working_directory", "/root"},
                                     {"hold_for_capacity", true},
                                     {"name", "other"},
                                     {"labels", {{"a", "b"}}},
                                     {"grace", "1h"},
                                     {"holder", "members"}}) {
    json::object document = annotation_document();
    document["spec"].as_object()[field] = value;
    EXPECT_THAT(refusal(document), HasSubstr("what a pod cannot ask for")) << field;
  }
  json::object priority = annotation_document();
  priority["spec"].as_object()["priority"] = 1001;
  EXPECT_THAT(refusal(priority), HasSubstr("priority"));
}

TEST(RequestAnnotation, RefusesDamagedDocuments) {
  EXPECT_FALSE(read_request_annotation(""));
  EXPECT_FALSE(read_request_annotation("[]"));
  EXPECT_FALSE(read_request_annotation(std::string(10'000, '[')));
  json::object version = annotation_document();
  version["version"] = 2;
  EXPECT_THAT(refusal(version), HasSubstr("only version 1"));
  json::object members = annotation_document();
  members["containers"] = {"main", "other"};
  EXPECT_THAT(refusal(members), HasSubstr("spec.members"));
  json::object twice = annotation_document();
  twice["initContainers"] = json::array{"main"};
  EXPECT_THAT(refusal(twice), HasSubstr("named twice"));
  json::object nobody = annotation_document();
  nobody["containers"] = json::array{};
  EXPECT_THAT(refusal(nobody), HasSubstr("no container is named"));
}

TEST(RequestAnnotation, NamesOnlyContainersOfThePod) {
  json::object document =
      pod_of({}, {{"divvy.dev/request", json::serialize(annotation_document())}});
  const auto request = annotated_request(document);
  ASSERT_TRUE(request.has_value() && request->has_value());
  document["spec"].at("containers").at(0).as_object()["name"] = "other";
  EXPECT_FALSE(annotated_request(document));
  EXPECT_EQ(annotated_request(pod({})), std::nullopt);
}

}  // namespace
}  // namespace divvy::kube
