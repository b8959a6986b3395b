#include "share/mps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/log.h"
#include "share/mps_mode.h"

namespace divvy::share {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Stands for the driver's program: -f is the daemon, which listens at a named pipe; without it the
// first line of standard input goes there.
constexpr char kFakeControl[] = R"(#!/bin/sh
control=$CUDA_MPS_PIPE_DIRECTORY/control
if [ "$1" = -f ]; then
  echo "start $CUDA_VISIBLE_DEVICES ${LD_PRELOAD:-clean}" >> "$FAKE_MPS/calls"
  if [ -e "$FAKE_MPS/refuse" ]; then echo "GPU is in exclusive mode" >&2; exit 3; fi
  if [ -e "$FAKE_MPS/silent" ]; then exec sleep 600; fi
  mkfifo "$control"
  echo $$ > "$control.pid"
  while read line < "$control"; do
    echo "$line" >> "$FAKE_MPS/calls"
    [ -e "$FAKE_MPS/stubborn" ] || exit 0
  done
fi
read line
[ -e "$control.pid" ] || { echo "Cannot find MPS control daemon process"; exit 0; }
case $line in quit*) echo "$line" > "$control" ;; esac
)";

class MpsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/divvy-mps-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    fs::create_directories(folder_ / "bin");
    std::ofstream(program()) << kFakeControl;
    fs::permissions(program(), fs::perms::owner_all);
    setenv("FAKE_MPS", folder_.c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path program() const { return folder_ / "bin" / "nvidia-cuda-mps-control"; }

  Mps::Options options() {
    Mps::Options options;
    options.folder = folder_ / "mps";
    options.control.program = program().string();
    options.control.quit_timeout = std::chrono::milliseconds(0);
    options.on_death = [this](const model::GpuUuid&, const Status& restarted) {
      const std::lock_guard lock(mutex_);
      deaths_.push_back(restarted);
      changed_.notify_all();
    };
    return options;
  }

  std::string calls() const {
    std::stringstream text;
    text << std::ifstream(folder_ / "calls").rdbuf();
    return text.str();
  }
  void mark(const char* name) const { std::ofstream{folder_ / name}; }

  pid_t daemon_pid(const Mps& mps) const {
    pid_t pid = 0;
    std::ifstream(mps.pipe_folder(gpu_) / "control.pid") >> pid;
    return pid;
  }

  Status wait_for_death(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return deaths_.size() >= count; });
    return deaths_[count - 1];
  }

  fs::path folder_;
  const model::GpuUuid gpu_ = *model::GpuUuid::parse("GPU-9513f36a-dd67-9e52-1bc8-16a0c72ea49d");
  const model::GpuUuid other_ = *model::GpuUuid::parse("GPU-01234567-89ab-cdef-0123-456789abcdef");
  const std::string start_ = "start " + gpu_.str() + " clean\n";
  LogCapture log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Status> deaths_;
};

TEST_F(MpsTest, StartsOneDaemonForAGpuHoweverManyTenantsCome) {
  Mps mps(options());
  const Status first = mps.acquire(gpu_);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(mps.acquire(gpu_));
  EXPECT_EQ(calls(), start_);
  ASSERT_TRUE(mps.acquire(other_));
  EXPECT_NE(mps.pipe_folder(other_), mps.pipe_folder(gpu_));
  mps.release(gpu_);
  mps.release(other_);
  mps.settle();
}

TEST_F(MpsTest, QuitsTheDaemonAndCleansUpAfterTheLastTenant) {
  Mps mps(options());
  ASSERT_TRUE(mps.acquire(gpu_));
  const pid_t pid = daemon_pid(mps);
  mps.release(gpu_);
  mps.settle();
  EXPECT_EQ(calls(), start_ + "quit\n");
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_TRUE(fs::is_empty(folder_ / "mps"));
  ASSERT_TRUE(mps.acquire(gpu_));
  EXPECT_EQ(calls(), start_ + "quit\n" + start_);
  mps.release(gpu_);
}

TEST_F(MpsTest, KillsADaemonThatDoesNotQuit) {
  mark("stubborn");
  Mps mps(options());
  ASSERT_TRUE(mps.acquire(gpu_));
  const pid_t pid = daemon_pid(mps);
  mps.release(gpu_);
  mps.settle();
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(MpsTest, SaysWhyADaemonDidNotStart) {
  mark("refuse");
  Mps mps(options());
  const Status started = mps.acquire(gpu_);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(started.error().message, HasSubstr("status 3"));
  EXPECT_THAT(started.error().message, HasSubstr("GPU is in exclusive mode"));
  EXPECT_TRUE(fs::is_empty(folder_ / "mps"));
  fs::remove(folder_ / "refuse");
  EXPECT_TRUE(mps.acquire(gpu_));
  mps.release(gpu_);
}

TEST_F(MpsTest, GivesUpOnADaemonThatNeverAnswers) {
  mark("silent");
  Mps::Options impatient = options();
  impatient.control.start_timeout = std::chrono::milliseconds(50);
  Mps mps(std::move(impatient));
  const Status started = mps.acquire(gpu_);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kTimeout);
}

TEST_F(MpsTest, SaysWhatToInstallWhereThereIsNoMps) {
  Mps::Options absent = options();
  absent.control.program = "no-such-mps-control";
  Mps mps(std::move(absent));
  EXPECT_FALSE(mps.check_installed());
  const Status started = mps.acquire(gpu_);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(started.error().message, HasSubstr("no-such-mps-control, which is not in PATH"));
}

TEST_F(MpsTest, StartsADaemonThatDiedAgain) {
  Mps mps(options());
  ASSERT_TRUE(mps.acquire(gpu_));
  const pid_t pid = daemon_pid(mps);
  kill(pid, SIGKILL);
  EXPECT_TRUE(wait_for_death(1));
  EXPECT_NE(daemon_pid(mps), pid);
  EXPECT_EQ(calls(), start_ + start_);
  mps.release(gpu_);
}

TEST_F(MpsTest, ARestartedDaemonListensInTheFolderThatContainersHaveMounted) {
  Mps mps(options());
  ASSERT_TRUE(mps.acquire(gpu_));
  const fs::path folder = mps.pipe_folder(gpu_);
  struct stat before{};
  ASSERT_EQ(stat(folder.c_str(), &before), 0);
  EXPECT_EQ(before.st_mode & 0777U, 0755U) << "clients may be of any user";
  std::ofstream{folder / "left over"};
  kill(daemon_pid(mps), SIGKILL);
  ASSERT_TRUE(wait_for_death(1));
  struct stat after{};
  ASSERT_EQ(stat(folder.c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_FALSE(fs::exists(folder / "left over"));
  mps.release(gpu_);
}

TEST_F(MpsTest, LeavesADaemonAloneThatDiesAgainAndAgainUntilTheNextTenant) {
  Mps::Options few = options();
  few.restarts_per_minute = 1;
  Mps mps(std::move(few));
  ASSERT_TRUE(mps.acquire(gpu_));
  kill(daemon_pid(mps), SIGKILL);
  ASSERT_TRUE(wait_for_death(1));
  kill(daemon_pid(mps), SIGKILL);
  const Status second = wait_for_death(2);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("died 2 times within a minute"));
  EXPECT_TRUE(mps.acquire(gpu_));
  EXPECT_EQ(calls(), start_ + start_ + start_);
  mps.release(gpu_);
}

TEST_F(MpsTest, TheNextDivvydTakesOverADaemonInUse) {
  pid_t pid = 0;
  {
    Mps mps(options());
    ASSERT_TRUE(mps.acquire(gpu_));
    pid = daemon_pid(mps);
  }
  EXPECT_EQ(kill(pid, 0), 0);
  Mps mps(options());
  ASSERT_TRUE(mps.acquire(gpu_));
  mps.stop_unused();
  EXPECT_EQ(calls(), start_);
  mps.release(gpu_);
  mps.settle();
  EXPECT_EQ(calls(), start_ + "quit\n");
}

TEST_F(MpsTest, TheNextDivvydQuitsADaemonThatNobodyUses) {
  {
    Mps mps(options());
    ASSERT_TRUE(mps.acquire(gpu_));
  }
  Mps mps(options());
  mps.stop_unused();
  mps.settle();
  EXPECT_EQ(calls(), start_ + "quit\n");
  EXPECT_TRUE(fs::is_empty(folder_ / "mps"));
}

TEST_F(MpsTest, ATenantGetsItsPartOfTheThreadsAndOnlyOneGpu) {
  const auto slice = [](const model::GpuUuid& gpu) {
    return *model::Slice::create(gpu, gib(4), Share(300), model::ShareKind::kGuarantee);
  };
  Mps mps(options());
  ledger::TenantRecord record;
  record.mode = model::GpuMode::kMps;
  record.slices = {slice(gpu_)};
  const Status entered = enter_mps(mps, record);
  ASSERT_TRUE(entered) << entered.error().message;
  EXPECT_EQ(mps_environment(mps, record),
            (std::map<std::string, std::string>{
                {"CUDA_MPS_PIPE_DIRECTORY", mps.pipe_folder(gpu_).string()},
                {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30"}}));
  leave_mps(mps, record);
  mps.settle();
  EXPECT_EQ(calls(), start_ + "quit\n");

  record.slices.push_back(slice(other_));
  const Status refused = enter_mps(mps, record);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("takes one GPU and 2 were asked for"));
}

TEST(MpsThreadPercentage, IsAtLeastTheShare) {
  const auto threads = [](std::uint32_t thousandths) {
    return mps_thread_percentage(Share(thousandths), TenantClass::kBatch);
  };
  EXPECT_EQ(threads(300), 30U);
  EXPECT_EQ(threads(125), 13U);
  EXPECT_EQ(threads(1), 1U);
  EXPECT_EQ(threads(2500), 100U);
}

TEST(MpsThreadPercentage, IsAllForTheLatencyClassBecauseItRunsAlone) {
  EXPECT_EQ(mps_thread_percentage(Share(300), TenantClass::kLatency), 100U);
}

}  // namespace
}  // namespace divvy::share
