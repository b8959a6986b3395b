// Members of jobs with divvyd itself as their shepherd, started by a runtime outside of a daemon.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "base/clock.h"
#include "base/temporary_folder.h"
#include "run/log_reader.h"
#include "run/machine_runtime.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;

class DivvydAsShepherd : public ::testing::Test {
 protected:
  void SetUp() override {
    run::MachineRuntime::Options options;
    options.members = folder_ / "members";
    options.shepherd = {DIVVYD_PROGRAM, "--shepherd"};
    runtime_ = *run::MachineRuntime::create(options, clock_);
  }
  run::MemberReport await_end(const run::MemberKey& key) {
    for (;;) {
      const auto now = runtime_->find(key);
      EXPECT_TRUE(now);
      if (!now || now->phase != run::MemberPhase::kLiving) return *now;
      pollfd wait{runtime_->watch_fd(), POLLIN, 0};
      (void)::poll(&wait, 1, 1'000);
      (void)runtime_->changes();
    }
  }

  TemporaryFolder folder_;
  SystemClock clock_;
  std::unique_ptr<run::MachineRuntime> runtime_;
};

TEST_F(DivvydAsShepherd, RunsAMemberAndTellsHowItEnded) {
  run::MemberStart member;
  member.key = {model::JobId(1), 1, 0};
  member.command = {"/bin/sh", "-c", "echo here; exit 3"};
  member.environment = {{"PATH", "/usr/bin:/bin"}};
  member.uid = ::geteuid();
  member.gid = ::getegid();
  const Status started = runtime_->start(member);
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(await_end(member.key).end->exit_code, 3);
  auto log = run::LogReader::open(runtime_->folder_of(member.key), {});
  ASSERT_TRUE(log);
  const auto lines = log->read(10);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].text, "here");
  EXPECT_TRUE(runtime_->forget(member.key));
}

TEST_F(DivvydAsShepherd, EndsAMemberThatIsToldTo) {
  run::MemberStart member;
  member.key = {model::JobId(2), 1, 0};
  member.command = {"sleep", "1000"};
  member.environment = {{"PATH", "/usr/bin:/bin"}};
  member.uid = ::geteuid();
  member.gid = ::getegid();
  ASSERT_TRUE(runtime_->start(member));
  ASSERT_TRUE(runtime_->stop(member.key, std::chrono::seconds(600)));
  EXPECT_EQ(await_end(member.key).end->signal, SIGTERM);
}

}  // namespace
}  // namespace divvy::testing
