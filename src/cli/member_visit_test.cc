// exec, attach and cp against a daemon whose relay is played by the test.
#include "cli/member_visit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "cli/played_relay.h"
#include "sys/frames.h"

namespace divvy::cli {
namespace {

// The member's side of a stream.
class Played {
 public:
  explicit Played(UniqueFd fd) : fd_(std::move(fd)) {}
  void say(const sys::Frame& frame) const {
    EXPECT_TRUE(sys::send_frames(fd_.get(), sys::to_bytes(frame)));
  }
  // Everything up to the end of the input.
  std::string input() {
    std::string all;
    for (;;) {
      const auto frame = frames_.next();
      EXPECT_TRUE(frame);
      if (!frame) return all;
      if (*frame) {
        if (const auto* const bytes = std::get_if<sys::InputFrame>(&**frame)) all += bytes->bytes;
        if (std::holds_alternative<sys::InputEndFrame>(**frame)) return all;
        continue;
      }
      char piece[4096];
      const ssize_t got = ::read(fd_.get(), piece, sizeof piece);
      if (got <= 0) return all;
      frames_.add({piece, static_cast<std::size_t>(got)});
    }
  }

 private:
  UniqueFd fd_;
  sys::FrameReader frames_;
};

class MemberVisits : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.on("GET /v1/jobs/17/members", R"({"items":[{"rank":0,"phase":"living"}]})");
  }
  void TearDown() override { join(); }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // `cut_after`: as PlayedRelay has it.
  void play(std::function<void(Played&)> part, int cut_after = 0) {
    daemon_.on("POST /v1/jobs/17/channels", [this, part, cut_after](const net::HttpRequest&) {
      relay_ = std::make_unique<PlayedRelay>(cut_after);
      threads_.emplace_back([part, fd = relay_->take_member()]() mutable {
        Played played(std::move(fd));
        part(played);
      });
      return net::HttpResponse{.status = 201, .body = R"({"keep_seconds":600})"};
    });
    daemon_.on("GET /v1/jobs/17/channels",
               [this](const net::HttpRequest&) { return relay_->join(); });
  }
  // What was wished for, without the name of the channel.
  [[nodiscard]] std::string asked_for() const {
    for (std::string line : daemon_.asked()) {
      const std::size_t name = line.find(R"(,"channel":")");
      if (!line.starts_with("POST ") || name == std::string::npos) continue;
      return line.erase(name, std::string_view(R"(,"channel":"")").size() + 64);
    }
    return "";
  }
  CliOutcome divvy(std::vector<std::string> arguments) {
    CliOutcome outcome = run_divvy(arguments, daemon_.socket());
    join();
    return outcome;
  }
  std::string path(const std::string& name) const { return (daemon_.folder() / name).string(); }
  static std::string content(const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  std::vector<std::thread> threads_;
  std::unique_ptr<PlayedRelay> relay_;
  FakeDaemon daemon_;
};

TEST_F(MemberVisits, ExecShowsWhatTheCommandWritesAndHasItsExitStatus) {
  play([](Played& member) {
    member.say(sys::StartedFrame{true});
    member.say(sys::OutputFrame{"hello\n"});
    member.say(sys::EndFrame{7, 0, ""});
  });
  ::testing::internal::CaptureStdout();
  const CliOutcome outcome =
      divvy({"exec", "17", "-e", "WORD=x", "--cwd", "/tmp", "--", "sh", "-c", "y"});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "hello\n");
  EXPECT_EQ(outcome.status, 7) << outcome.err;
  EXPECT_EQ(asked_for(), R"(POST /v1/jobs/17/channels {"kind":"exec","command":["sh","-c","y"],)"
                         R"("environment":["WORD=x"],"path":"/tmp","terminal":false,"rank":0})");
}

TEST_F(MemberVisits, ExecHasTheStatusOfASignalAndOfWhatCannotBeStarted) {
  play([](Played& member) {
    member.say(sys::StartedFrame{true});
    member.say(sys::EndFrame{0, SIGKILL, ""});
  });
  EXPECT_EQ(divvy({"exec", "17", "--", "x"}).status, 137);
  play([](Played& member) {
    member.say(sys::RefusedFrame{{ErrorCode::kNotFound, "x: no such program"}});
  });
  EXPECT_EQ(divvy({"exec", "17", "--", "x"}).status, kExitNoSuchCommand);
  play([](Played& member) { member.say(sys::StartedFrame{true}); });
  const CliOutcome lost = divvy({"exec", "17", "--", "x"});
  EXPECT_EQ(lost.status, kExitError);
  EXPECT_NE(lost.err.find("was lost"), std::string::npos) << lost.err;
}

TEST_F(MemberVisits, WhatIsSaidArrivesOnceOverConnectionsThatAreCut) {
  std::string lines;
  for (int i = 0; i < 300'000; ++i) lines += fmt::format("line {}\n", i);
  play(
      [&](Played& member) {
        member.say(sys::StartedFrame{true});
        member.say(sys::OutputFrame{lines});
        member.say(sys::EndFrame{9, 0, ""});
      },
      3);
  ::testing::internal::CaptureStdout();
  const CliOutcome outcome = divvy({"exec", "17", "--", "x"});
  EXPECT_TRUE(::testing::internal::GetCapturedStdout() == lines);
  EXPECT_EQ(outcome.status, 9) << outcome.err;
  EXPECT_GE(relay_->joins(), 3);
}

TEST_F(MemberVisits, WhoComesBackTooLateIsToldWhy) {
  play([](Played& member) { member.say(sys::StartedFrame{true}); });
  daemon_.on("GET /v1/jobs/17/channels", R"({"detail":"nobody came back to this channel"})", 404);
  const CliOutcome outcome = divvy({"exec", "17", "--", "x"});
  EXPECT_EQ(outcome.status, kExitError);
  EXPECT_NE(outcome.err.find("the connection to the job is lost: nobody came back"),
            std::string::npos)
      << outcome.err;
}

TEST_F(MemberVisits, ARefusalOfTheDaemonIsSaid) {
  daemon_.on("POST /v1/jobs/17/channels", R"({"detail":"job 17 belongs to ada"})", 403);
  const CliOutcome outcome = divvy({"exec", "17", "--", "x"});
  EXPECT_EQ(outcome.status, kExitDenied);
  EXPECT_NE(outcome.err.find("job 17 belongs to ada"), std::string::npos) << outcome.err;
}

TEST_F(MemberVisits, AttachSaysThatNoInputIsTakenAndHasTheExitStatusOfTheJob) {
  play([](Played& member) {
    member.say(sys::StartedFrame{false});
    member.say(sys::EndFrame{3, 0, ""});
  });
  const CliOutcome outcome = divvy({"attach", "17"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.err.find("takes no input"), std::string::npos) << outcome.err;
}

TEST_F(MemberVisits, FilesAreCopiedInAndOutAsTarStreams) {
  std::string tar;
  play([&](Played& member) {
    member.say(sys::StartedFrame{true});
    tar = member.input();
    member.say(sys::EndFrame{});
  });
  std::ofstream(path("a.txt")) << "text";
  EXPECT_EQ(divvy({"cp", path("a.txt"), "17:/into"}).status, kExitOk);
  EXPECT_EQ(asked_for(), R"(POST /v1/jobs/17/channels {"kind":"copy-in","path":"/into","rank":0})");
  play([&](Played& member) {
    member.say(sys::StartedFrame{true});
    member.say(sys::OutputFrame{tar});
    member.say(sys::EndFrame{});
  });
  EXPECT_EQ(divvy({"cp", "17:/into/a.txt", path("b.txt")}).status, kExitOk);
  EXPECT_EQ(content(path("b.txt")), "text");
  std::filesystem::create_directory(path("folder"));
  EXPECT_EQ(divvy({"cp", "17:/into/a.txt", path("folder")}).status, kExitOk);
  EXPECT_EQ(content(path("folder/a.txt")), "text");
  play([](Played& member) {
    member.say(sys::StartedFrame{true});
    member.say(sys::EndFrame{2, 0, ""});
  });
  EXPECT_EQ(divvy({"cp", "17:/missing", path("c")}).status, kExitError);
  EXPECT_EQ(divvy({"cp", path("missing"), "17:/tmp"}).status, kExitNotFound);
}

}  // namespace
}  // namespace divvy::cli
