#include "kube/pod_channels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace divvy::kube {
namespace {

using ::testing::HasSubstr;

TEST(PodChannels, TheFirstByteOfAMessageIsItsChannel) {
  EXPECT_EQ(channel_message(PodChannel::kInput, "ls\n"), std::string("\0ls\n", 4));
  EXPECT_EQ(close_message(PodChannel::kInput), std::string("\xff\0", 2));
  EXPECT_EQ(resize_message(24, 80), "\x04{\"Width\":80,\"Height\":24}");
  const auto read = read_channel_message("\x02oh no");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->first, PodChannel::kErrors);
  EXPECT_EQ(read->second, "oh no");
  EXPECT_FALSE(read_channel_message("").has_value());
}

TEST(PodChannels, TheLastMessageTellsTheExitStatus) {
  EXPECT_EQ(read_pod_status(R"({"metadata":{},"status":"Success"})"), 0);
  EXPECT_EQ(read_pod_status(R"({"status":"Failure","reason":"NonZeroExitCode",
                "message":"command terminated with non-zero exit code",
                "details":{"causes":[{"reason":"ExitCode","message":"137"}]}})"),
            137);
}

TEST(PodChannels, WhatWasNotStartedIsAnError) {
  const auto missing = read_pod_status(
      R"({"status":"Failure","reason":"InternalError","message":"OCI runtime exec failed: exec
          failed: exec: \"nope\": executable file not found in $PATH: unknown"})");
  EXPECT_FALSE(missing.has_value());
  const auto not_found = read_pod_status(
      R"({"status":"Failure","message":"OCI runtime exec failed: \"nope\": executable file not found in $PATH"})");
  ASSERT_FALSE(not_found.has_value());
  EXPECT_EQ(not_found.error().code, ErrorCode::kNotFound);
  const auto refused = read_pod_status(
      R"({"status":"Failure","message":"OCI runtime exec failed: permission denied"})");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  for (const char* const odd : {"", "{", "[]", "{}", R"({"status":"Failure","message":"boom"})"}) {
    const auto status = read_pod_status(odd);
    ASSERT_FALSE(status.has_value()) << odd;
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable) << odd;
  }
}

TEST(PodChannels, EveryWordOfACommandIsItsOwn) {
  const std::string path = visit_path({.space = "team-a",
                                       .pod = "train-0",
                                       .container = "main",
                                       .command = {"sh", "-c", "a && b?"},
                                       .input = true});
  EXPECT_EQ(path,
            "/api/v1/namespaces/team-a/pods/train-0/exec?container=main&stdout=true&stderr=true&"
            "stdin=true&tty=false&command=sh&command=-c&command=a%20%26%26%20b%3F");
  EXPECT_THAT(visit_path({.space = "a", .pod = "b", .container = "c", .terminal = true}),
              HasSubstr("/attach?container=c&stdout=true&stderr=false&stdin=false&tty=true"));
  EXPECT_EQ(port_path("a", "b", 80), "/api/v1/namespaces/a/pods/b/portforward?ports=80");
}

}  // namespace
}  // namespace divvy::kube
