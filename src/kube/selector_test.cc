#include "kube/selector.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace divvy::kube {
namespace {

const boost::json::object kPod{
    {"metadata", {{"name", "a"}, {"labels", {{"app", "web"}, {"divvy.dev/gang", "g"}}}}},
    {"spec", {{"nodeName", "gpu-1"}, {"containers", boost::json::array()}}}};

bool labels_match(std::string_view text) { return Selector::of_labels(text)->matches(kPod); }
bool fields_match(std::string_view text) { return Selector::of_fields(text)->matches(kPod); }

TEST(Selector, OfLabels) {
  EXPECT_TRUE(labels_match(""));
  EXPECT_TRUE(labels_match("app=web"));
  EXPECT_TRUE(labels_match("app == web,divvy.dev/gang"));
  EXPECT_TRUE(labels_match("tier!=front,!tier"));
  EXPECT_FALSE(labels_match("app=web,app!=web"));
  EXPECT_FALSE(labels_match("!app"));
  EXPECT_FALSE(labels_match("tier"));
  EXPECT_FALSE(labels_match("tier="));
}

TEST(Selector, OfFields) {
  EXPECT_TRUE(fields_match("spec.nodeName=gpu-1,metadata.name=a"));
  EXPECT_TRUE(fields_match("metadata.namespace="));
  EXPECT_TRUE(fields_match("status.phase!=Running"));
  EXPECT_FALSE(fields_match("spec.nodeName!=gpu-1"));
  EXPECT_FALSE(fields_match("spec.containers.name=x"));
}

TEST(Selector, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"a in (b,c)", ",", "=a", "a notin (b)", "!"}) {
    EXPECT_FALSE(Selector::of_labels(text).has_value()) << text;
  }
  EXPECT_FALSE(Selector::of_fields("spec.nodeName").has_value());
}

}  // namespace
}  // namespace divvy::kube
