#include "api/requests.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

TEST(GrantRequest, ReadsEverything) {
  const auto request = parse_grant_request(
      R"({"gpu":"0.3","memory":"10GiB","cap":true,"class":"latency","mode":"mps",
          "devices":["0","GPU-1"],"name":"x","command":"python","queue":"research","wait":true,"timeoutSeconds":5})");
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->spec.request.share(), Share(300));
  EXPECT_EQ(request->spec.request.memory(), gib(10));
  EXPECT_EQ(request->spec.request.kind(), model::ShareKind::kCap);
  EXPECT_EQ(request->spec.job_class, model::JobClass::kLatency);
  EXPECT_EQ(request->spec.mode, model::GpuMode::kMps);
  EXPECT_EQ(request->spec.devices, (std::vector<std::string>{"0", "GPU-1"}));
  EXPECT_EQ(request->spec.queue, "research");
  EXPECT_EQ(request->spec.holder, model::Holder::kProcess);
  EXPECT_TRUE(request->wait);
  EXPECT_EQ(request->timeout_seconds, 5U);
}

TEST(GrantRequest, RefusesWhatIsMisspelt) {
  const auto request = parse_grant_request(R"({"gpu":"0.3","comand":"x"})");
  ASSERT_FALSE(request.has_value());
  EXPECT_EQ(request.error().message, "comand: there is no such field; did you mean command?");
  EXPECT_EQ(parse_grant_request(R"({"gqu":"0.3"})").error().message,
            "gqu: there is no such field; did you mean gpu?");
}

TEST(GrantRequest, RefusesOtherKindsOfValues) {
  for (const char* body :
       {R"({"gpu":1})", R"({"gpu":"1","wait":"yes"})", R"({"gpu":"1","devices":[1]})",
        R"({"gpu":"1","timeoutSeconds":-1})", R"({"gpu":"1","timeoutSeconds":1e30})",
        R"({"gpu":"1","command":[]})", "null", "[[[[[[[[[[[[1]]]]]]]]]]]]"}) {
    EXPECT_FALSE(parse_grant_request(body).has_value()) << body;
  }
}

TEST(ChangeRequest, NeedsSomethingToChange) {
  EXPECT_FALSE(parse_change_request("{}").has_value());
  EXPECT_FALSE(parse_change_request(R"({"gpu":"0"})").has_value());
  const auto change = parse_change_request(R"({"cap":false,"memory":"1GiB"})");
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->capped, false);
  EXPECT_EQ(change->memory, gib(1));
  EXPECT_FALSE(change->share.has_value());
}

}  // namespace
}  // namespace divvy::api
