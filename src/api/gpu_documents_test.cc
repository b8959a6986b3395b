#include "api/gpu_documents.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

TEST(GpuDocuments, ReadsACordonRequest) {
  EXPECT_TRUE(parse_cordon_request(""));
  const auto request = parse_cordon_request(R"({"reason":"new fan","deadlineSeconds":600})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->reason, "new fan");
  EXPECT_EQ(request->deadline_seconds, 600U);
  for (const char* body : {"[]", "{", R"({"reason":1})", R"({"deadlineSeconds":-1})",
                           R"({"deadlineSeconds":"5"})", R"({"raeson":"x"})"}) {
    EXPECT_FALSE(parse_cordon_request(body)) << body;
  }
}

TEST(GpuDocuments, ReadsAnEventsQuery) {
  const auto query = parse_events_query("wait=30&since=12");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->since, 12U);
  EXPECT_EQ(query->wait_seconds, 30U);
  EXPECT_TRUE(parse_events_query(""));
  for (const char* text :
       {"since", "since=", "since=-1", "since=1&since=2", "wait=9999", "x=1", "since=1&&wait=2"}) {
    EXPECT_FALSE(parse_events_query(text)) << text;
  }
}

}  // namespace
}  // namespace divvy::api
