// A machine's runtime in a folder of its own, with real shepherds, for tests. What is still there
// at the end is ended.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/temporary_folder.h"
#include "run/log_reader.h"
#include "run/machine_runtime.h"
#include "run/member_program.h"
#include "sys/processes.h"

namespace divvy::run {

// Long enough for any machine; only a test that fails waits so long.
inline constexpr std::chrono::seconds kTestPatience{60};

// Members of other users pass through it to their sockets.
class MembersFolder : public TemporaryFolder {
 public:
  MembersFolder() { std::filesystem::permissions(path(), std::filesystem::perms(0711)); }
};

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override { runtime_ = new_runtime(); }
  void TearDown() override {
    const auto members = runtime_->find();
    for (const MemberReport& member : members.value_or(std::vector<MemberReport>())) {
      (void)runtime_->stop(member.key, std::chrono::seconds(0));
      (void)await_end(member.key);
    }
  }

  MachineRuntime::Options options() const {
    MachineRuntime::Options options;
    options.members = folder_.path() / "members";
    options.shepherd = {SHEPHERD_PROGRAM};
    options.remover = {SHEPHERD_PROGRAM, "--remove-container"};
    return options;
  }
  // Another daemon after the first, as far as the members can tell.
  std::unique_ptr<MachineRuntime> new_runtime() {
    auto made = MachineRuntime::create(options(), clock_);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }

  static MemberKey key(std::uint64_t job) { return {model::JobId(job), 1, 0}; }
  // As this user, in this environment.
  static MemberStart plain(std::uint64_t job, std::vector<std::string> command) {
    MemberStart member;
    member.key = key(job);
    member.command = std::move(command);
    member.environment = {{"PATH", "/usr/bin:/bin"}};
    member.uid = ::geteuid();
    member.gid = ::getegid();
    return member;
  }
  static MemberStart shell(std::uint64_t job, const std::string& script) {
    return plain(job, {"/bin/sh", "-c", script});
  }
  MemberKey start(const MemberStart& member) {
    const Status started = runtime_->start(member);
    EXPECT_TRUE(started) << started.error().message;
    return member.key;
  }

  // Waits for the event, not for the time.
  MemberReport await_end(const MemberKey& wanted) {
    const auto until = std::chrono::steady_clock::now() + kTestPatience;
    for (;;) {
      const auto now = runtime_->find(wanted);
      if (!now || now->phase != MemberPhase::kLiving) {
        return now.value_or(MemberReport{.key = wanted, .end = {}, .without = {}});
      }
      pollfd wait{runtime_->watch_fd(), POLLIN, 0};
      (void)::poll(&wait, 1, 1'000);
      for (const MemberReport& change : runtime_->changes()) {
        if (change.key == wanted) return change;
      }
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << to_string(wanted) << " does not end";
        return *now;
      }
    }
  }
  model::MemberEnd run(const MemberStart& member) {
    return await_end(start(member)).end.value_or(model::MemberEnd{});
  }

  std::vector<LogLine> lines(const MemberKey& of) {
    auto reader = LogReader::open(runtime_->folder_of(of), {});
    if (!reader) return {};
    auto found = reader->read(1'000'000);
    for (LogLine& line : reader->rest()) found.push_back(std::move(line));
    return found;
  }
  // What it wrote, without what was said about it.
  std::string output(const MemberKey& of) {
    std::string text;
    for (const LogLine& line : lines(of)) {
      if (line.stream != LogStream::kDivvy) text += line.text + "\n";
    }
    return text;
  }
  // Waits until it has written this line.
  void await_line(const MemberKey& of, const std::string& wanted) {
    const auto until = std::chrono::steady_clock::now() + kTestPatience;
    auto reader = LogReader::open(runtime_->folder_of(of), {});
    ASSERT_TRUE(reader);
    while (std::chrono::steady_clock::now() < until) {
      reader->clear_watch();
      for (const LogLine& line : reader->read(1'000'000)) {
        if (line.text == wanted) return;
      }
      pollfd wait{reader->watch_fd(), POLLIN, 0};
      (void)::poll(&wait, 1, 1'000);
    }
    FAIL() << to_string(of) << " never wrote " << wanted;
  }

  std::string name_of(const MemberKey& of) {
    const auto folder = MemberFolder::open(runtime_->folder_of(of));
    return folder ? unique_name(*folder) : "";
  }
  std::vector<pid_t> processes_of(const MemberKey& of) {
    return sys::processes_with(std::string(kMemberVariable) + "=" + name_of(of), ::getpid());
  }
  Watch watch_of(const MemberKey& of) {
    const auto folder = MemberFolder::open(runtime_->folder_of(of));
    return folder ? folder->watch().value_or(Watch{}) : Watch{};
  }

  MembersFolder folder_;
  SystemClock clock_;
  std::unique_ptr<MachineRuntime> runtime_;
};

}  // namespace divvy::run
