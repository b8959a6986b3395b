#include "api/request_target.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

int status_of(const std::string& method, const std::string& path) {
  const auto resolved = resolve_target({.method = method, .path = path, .query = {}, .body = {}});
  return resolved ? 200 : resolved.error().status;
}

TEST(RequestTarget, NamesAreDecodedOnce) {
  EXPECT_EQ(*decode_path("/v1/people/%61da"), "/v1/people/ada");
  EXPECT_EQ(*decode_path("/v1/people/%2561da"), "/v1/people/%61da");
  EXPECT_EQ(*decode_path("/v1/queues/research%2fvision"), "/v1/queues/research/vision");
}

TEST(RequestTarget, WhatLeadsElsewhereIsRefused) {
  for (const char* const path :
       {"/v1/jobs/1%2Flogs", "/v1/slices/%00", "/v1/slices/a%0a", "/v1/slices/..%2Fnode",
        "/v1/queues/..%2Fnode", "/v1/queues/a/../b", "/v1/slices/%2e%2E", "/v1/slices/.",
        "/v1/slices/%", "/v1/slices/%2", "/v1/slices/%zz", "/v1/slices/%2z", "/v1/slices/%7f"}) {
    EXPECT_EQ(status_of("GET", path), 400) << path;
  }
}

TEST(RequestTarget, PathsThatAreNotThereAndMethodsThatTheyDoNotTake) {
  const auto logs =
      resolve_target({.method = "GET", .path = "/v1/jobs/7/logs", .query = {}, .body = {}});
  ASSERT_TRUE(logs);
  EXPECT_EQ(logs->route->id, "readLogs");
  EXPECT_EQ(logs->parameter, "7");
  EXPECT_EQ(status_of("PUT", "/v1/queues/research/vision"), 200);
  for (const char* const path :
       {"/", "/v2/jobs", "/v1/jobs/", "/v1/jobs/7/", "/v1/jobs//logs", "/v1/tenants/a/b",
        "/v1/queues/", "/v1/queues//a", "v1/jobs", "", "*"}) {
    EXPECT_EQ(status_of("GET", path), 404) << path;
  }
  EXPECT_EQ(status_of("PUT", "/v1/jobs"), 405);
  EXPECT_EQ(status_of("HEAD", "/v1/node"), 405);
  EXPECT_EQ(status_of("TRACE", "/v1/node"), 405);
  EXPECT_EQ(status_of("GET", "/v1/jobs/prune"), 405) << "it is no job";
  const auto refused =
      resolve_target({.method = "PUT", .path = "/v1/jobs/7", .query = {}, .body = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().headers.at("allow"), "GET, PATCH, DELETE");
}

}  // namespace
}  // namespace divvy::api
