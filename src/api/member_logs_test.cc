#include "api/member_logs.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace divvy::api {
namespace {

constexpr WallTime kStart{std::chrono::hours(24)};

// The agent's side of a member's output.
struct Agent {
  explicit Agent(MemberLogs& logs, std::uint32_t rank) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    socket = UniqueFd(ends[0]);
    logs.add(rank, UniqueFd(ends[1]));
  }
  void say(const sys::Frame& frame) const {
    EXPECT_TRUE(sys::send_frames(socket.get(), sys::to_bytes(frame)));
  }
  void line(int second, std::string text) const {
    say(sys::LineFrame{kStart + std::chrono::seconds(second), sys::LineStream::kOutput, true,
                       std::move(text)});
  }
  UniqueFd socket;
};

std::string text_of(const std::vector<MemberLine>& lines) {
  std::string text;
  for (const MemberLine& line : lines) text += to_text(line, {.ranks = true});
  return text;
}

TEST(MemberLogs, MergesTheLinesOfAllMembersByTheirTimes) {
  MemberLogs logs;
  const Agent zero(logs, 0);
  const Agent one(logs, 1);
  zero.line(1, "a");
  zero.line(3, "c");
  zero.line(3, "d");
  zero.say(sys::CaughtUpFrame{});
  one.line(2, "b");
  one.line(3, "e");
  one.say(sys::CaughtUpFrame{});
  EXPECT_EQ(text_of(logs.read()), "[0] a\n[1] b\n[0] c\n[0] d\n[1] e\n");
  EXPECT_TRUE(logs.read().empty());
  pollfd wait{logs.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 0), 0);
  one.line(4, "f");
  one.say(sys::CaughtUpFrame{});
  EXPECT_EQ(::poll(&wait, 1, 10'000), 1);
  EXPECT_EQ(text_of(logs.read()), "[1] f\n");
}

TEST(MemberLogs, AfterFinishEverythingUpToTheEndIsRead) {
  MemberLogs logs;
  const Agent agent(logs, 0);
  agent.say(sys::CaughtUpFrame{});
  EXPECT_TRUE(logs.read().empty());
  logs.finish();
  agent.line(1, "last");
  agent.say(sys::CaughtUpFrame{});
  agent.line(2, "without an end");
  agent.say(sys::EndFrame{});
  EXPECT_EQ(text_of(logs.read()), "[0] last\n[0] without an end\n");
  EXPECT_TRUE(logs.read().empty());
}

TEST(MemberLogs, ALineInPartsIsOneAndAnAgentThatIsGoneIsAnEnd) {
  MemberLogs logs;
  Agent agent(logs, 0);
  const std::string longer(sys::kMaxFrame + 1, 'x');
  agent.line(1, longer);
  agent.socket.reset();
  const auto lines = logs.read();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].line.text == longer);
  EXPECT_TRUE(logs.read().empty());
}

TEST(MemberLogs, WhatIsSaidAboutAMemberIsMarkedAndTimesAreExact) {
  const MemberLine line{0, {kStart, sys::LineStream::kDivvy, true, "gone"}};
  EXPECT_EQ(to_text(line, {.timestamps = true}), "1970-01-02T00:00:00.000000000Z divvy: gone\n");
}

}  // namespace
}  // namespace divvy::api
