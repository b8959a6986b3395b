#include "kube/resource_path.h"

#include <gtest/gtest.h>

namespace divvy::kube {
namespace {

TEST(ResourcePath, TakesPathsApart) {
  const auto status = ResourcePath::parse(
      "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/b/status?x=1&y=%2Fz");
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(status->group_version, "/apis/resource.k8s.io/v1");
  EXPECT_EQ(status->space, "a");
  EXPECT_EQ(status->resource, "resourceclaims");
  EXPECT_EQ(status->name, "b");
  EXPECT_EQ(status->subresource, "status");
  EXPECT_EQ(status->parameter("x"), "1");
  EXPECT_EQ(status->parameter("y"), "/z");
  EXPECT_EQ(status->parameter("z"), "");

  const auto nodes = ResourcePath::parse("/api/v1/nodes");
  ASSERT_TRUE(nodes.has_value());
  EXPECT_EQ(nodes->kind_path(), "/api/v1/nodes");
  EXPECT_EQ(nodes->name, "");
}

TEST(ResourcePath, ANamespaceIsAlsoAnObject) {
  const auto space = ResourcePath::parse("/api/v1/namespaces/a");
  ASSERT_TRUE(space.has_value());
  EXPECT_EQ(space->resource, "namespaces");
  EXPECT_EQ(space->name, "a");
  EXPECT_EQ(space->space, "");
  EXPECT_EQ(ResourcePath::parse("/api/v1/namespaces/a/finalize")->subresource, "finalize");
  EXPECT_EQ(ResourcePath::parse("/api/v1/namespaces/a/pods")->space, "a");
}

TEST(ResourcePath, RefusesWhatIsNone) {
  for (const char* text :
       {"", "/", "/api", "/api/v1", "/apis/apps/v1", "api/v1/pods", "/version/a", "/api/v1//pods",
        "/api/v1/pods/a/b/c", "/api/v1/pods/%4", "/api/v1/%zz"}) {
    const auto parsed = ResourcePath::parse(text);
    EXPECT_FALSE(parsed.has_value()) << text;
  }
}

TEST(ResourcePath, EncodesParameters) {
  std::string path = with_parameter("/api/v1/pods", "fieldSelector", "spec.nodeName=a b");
  EXPECT_EQ(path, "/api/v1/pods?fieldSelector=spec.nodeName%3Da%20b");
  path = with_parameter(path, "limit", "5");
  EXPECT_EQ(ResourcePath::parse(path)->parameter("fieldSelector"), "spec.nodeName=a b");
  EXPECT_EQ(ResourcePath::parse(path)->parameter("limit"), "5");
}

}  // namespace
}  // namespace divvy::kube
