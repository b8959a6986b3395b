#include "sys/own_child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace divvy::sys {
namespace {

// What the children of this test do: they are this program too.
TEST(OwnChildAsked, DISABLED_SaysWhatItWasGiven) {
  const char* said = std::getenv("OWN_CHILD_SAYS");
  const std::string words = said != nullptr ? said : "";
  (void)!::write(7, words.data(), words.size());
  ::_exit(std::getenv("LD_PRELOAD") == nullptr ? 3 : 4);
}
TEST(OwnChildAsked, DISABLED_NeverEnds) {
  (void)!::write(7, "here", 4);
  for (;;) ::pause();
}

OwnChild start(const std::string& test) {
  auto child = OwnChild::start({.arguments = {"--gtest_also_run_disabled_tests", "--gtest_brief=1",
                                              "--gtest_filter=OwnChildAsked.DISABLED_" + test},
                                .channel = 7,
                                .environment = {"OWN_CHILD_SAYS=hello"}});
  EXPECT_TRUE(child) << child.error().message;
  return *std::move(child);
}

std::string hear(const OwnChild& child) {
  char buffer[100];
  const ssize_t got = ::recv(child.channel(), buffer, sizeof buffer, 0);
  return got > 0 ? std::string(buffer, static_cast<std::size_t>(got)) : "";
}

void await_end(int life) {
  pollfd wait{life, POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 30'000), 1) << "the child did not end";
}

TEST(OwnChild, AnswersOverItsSocketAndReportsItsExitStatus) {
  OwnChild child = start("SaysWhatItWasGiven");
  EXPECT_EQ(hear(child), "hello");
  await_end(child.life());
  EXPECT_EQ(child.ended(), 3);
  EXPECT_EQ(child.ended(), 3);
}

TEST(OwnChild, IsKilledByTheDestructor) {
  const int life = [] {
    const OwnChild child = start("NeverEnds");
    EXPECT_EQ(hear(child), "here");
    return ::dup(child.life());
  }();
  await_end(life);
  ::close(life);
}

TEST(OwnChild, SaysWhichSignalEndedIt) {
  OwnChild child = start("NeverEnds");
  EXPECT_EQ(hear(child), "here");
  EXPECT_EQ(child.ended(), std::nullopt);
  child.kill();
  await_end(child.life());
  EXPECT_EQ(child.ended(), 128 + 9);
}

}  // namespace
}  // namespace divvy::sys
