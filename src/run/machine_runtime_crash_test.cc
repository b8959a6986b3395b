// Daemons and shepherds that are killed with -9, at moments that nobody chose.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <random>

#include "run/member_folder.h"
#include "run/shepherd.h"
#include "run/testing.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr int kRounds = 25;

// Where a script stops until the test lets it go on.
class Barrier {
 public:
  explicit Barrier(const fs::path& path)
      : reached_(make(path.string() + ".reached")), go_(make(path.string() + ".go")) {}

  std::string script() const {
    return fmt::format("echo > {}; read go < {}", reached_.path, go_.path);
  }
  [[nodiscard]] bool is_reached() const {
    pollfd wait{reached_.fd.get(), POLLIN, 0};
    return ::poll(&wait, 1, std::chrono::milliseconds(kTestPatience).count()) == 1;
  }
  void open() const { EXPECT_EQ(::write(go_.fd.get(), "\n", 1), 1); }

 private:
  struct Fifo {
    std::string path;
    UniqueFd fd;
  };
  static Fifo make(const std::string& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    return {path, UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC))};
  }

  Fifo reached_;
  Fifo go_;
};

// With control groups, and without: there, the environment is what tells whose a process is.
class Crash : public RuntimeTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    fs::create_directories(starts());
    runtime_ = other_runtime();
    const auto seed = std::random_device()();
    RecordProperty("seed", static_cast<int>(seed));
    random_.seed(seed);
  }

  std::unique_ptr<MachineRuntime> other_runtime() {
    auto options = this->options();
    options.control_groups = GetParam();
    return *MachineRuntime::create(options, clock_);
  }
  fs::path starts() const { return folder_.path() / "starts"; }
  std::size_t times_started(const MemberKey& member) const {
    std::ifstream file(starts() / to_string(member));
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
  // Notes that it was started, and leaves a daemon behind.
  MemberStart busy(std::uint64_t job) {
    return shell(job, fmt::format("echo start >> {}; (setsid sleep 1000 &); exec sleep 1000",
                                  (starts() / to_string(key(job))).string()));
  }
  // As a daemon leaves it that was killed before it had a shepherd.
  void leave_behind(MemberStart member, std::vector<std::string> podman = {"podman"}) {
    const auto folder = MemberFolder::create(folder_.path() / "members", member.key);
    ASSERT_TRUE(folder.has_value()) << folder.error().message;
    PodmanSettings settings;
    settings.program = std::move(podman);
    ASSERT_TRUE(folder->write(Orders{std::move(member), settings, GetParam()}).has_value());
  }
  // The same of a container, whose removal stops at the barrier.
  void leave_container_behind(std::uint64_t job, const Barrier& barrier) {
    MemberStart member = shell(job, "true");
    member.container.emplace().image = "none";
    leave_behind(std::move(member), {"/bin/sh", "-c", barrier.script()});
  }
  void wait_a_moment(int most_us) {
    // Not to wait for something, but to be anywhere.
    ::usleep(
        std::uniform_int_distribution<useconds_t>(0, static_cast<useconds_t>(most_us))(random_));
  }
  void expect_nothing_left(const MemberKey& member) {
    EXPECT_TRUE(processes_of(member).empty()) << to_string(member);
    for (const std::string& group : watch_of(member).groups) {
      EXPECT_FALSE(fs::exists(group)) << group;
    }
  }

  std::minstd_rand random_;
};

// Of a daemon that was killed in the middle of a start; the next daemon has made the folder anew
// and is about to write its orders.
TEST_P(Crash, AShepherdThatComesLateLeavesTheNextStartAlone) {
  const auto next = MemberFolder::create(folder_.path() / "members", key(1));
  ASSERT_TRUE(next.has_value()) << next.error().message;
  int channel[2];
  ASSERT_EQ(::pipe(channel), 0);
  const pid_t late = ::fork();
  if (late == 0) {
    ::dup2(channel[1], kShepherdChannel);
    ::execl(SHEPHERD_PROGRAM, SHEPHERD_PROGRAM, next->path().c_str(), nullptr);
    ::_exit(127);
  }
  ::close(channel[1]);
  char word[256];
  while (::read(channel[0], word, sizeof word) > 0) continue;  // Until it is gone
  ::close(channel[0]);
  ASSERT_EQ(::waitpid(late, nullptr, 0), late);
  ASSERT_FALSE(next->ending().has_value());
  EXPECT_EQ(next->ending().error().code, ErrorCode::kNotFound) << "it has said nothing";
  EXPECT_TRUE(next->remove().has_value());
}

// The reaper is at another lost member while this one is ended, forgotten and started anew; it
// comes to it when the new start has its folder and no shepherd yet.
TEST_P(Crash, AMemberStartedAgainIsNotEndedByTheReaperOfItsEarlierStart) {
  const Barrier before(folder_.path() / "before");
  const Barrier starting(folder_.path() / "starting");
  const Barrier after(folder_.path() / "after");
  auto options = this->options();
  options.control_groups = GetParam();
  options.shepherd = {"/bin/sh", "-c",
                      fmt::format("{}; exec {} \"$0\"", starting.script(), SHEPHERD_PROGRAM)};
  runtime_ = *MachineRuntime::create(options, clock_);
  leave_container_behind(1, before);
  ASSERT_TRUE(runtime_->find());
  ASSERT_TRUE(before.is_reached());
  leave_behind(shell(2, "exit 3"));
  leave_container_behind(3, after);
  ASSERT_TRUE(runtime_->find());
  ASSERT_EQ(runtime_->find(key(2))->phase, MemberPhase::kLost);
  ASSERT_TRUE(runtime_->forget(key(2)));

  auto started =
      std::async(std::launch::async, [&] { return runtime_->start(shell(2, "exit 4")); });
  ASSERT_TRUE(starting.is_reached());
  before.open();
  ASSERT_TRUE(after.is_reached()) << "the reaper has passed it";
  starting.open();
  const Status done = started.get();
  EXPECT_TRUE(done) << done.error().message;
  const MemberReport report = await_end(key(2));
  EXPECT_EQ(report.phase, MemberPhase::kEnded);
  EXPECT_EQ(report.end.value_or(model::MemberEnd{}).exit_code, 4);
  after.open();
}

TEST_P(Crash, MembersOutliveTheDaemonThatStartedThem) {
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    const auto own = other_runtime();
    const bool started = own->start(busy(1)) && own->start(shell(2, "exit 4"));
    ::kill(::getpid(), started ? SIGKILL : SIGABRT);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(daemon, &status, 0), daemon);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);

  runtime_ = other_runtime();
  EXPECT_EQ(await_end(key(2)).end->exit_code, 4);
  const auto living = runtime_->find(key(1));
  ASSERT_TRUE(living);
  EXPECT_EQ(living->phase, MemberPhase::kLiving);
  EXPECT_GT(living->pid, 1);
  EXPECT_TRUE(runtime_->stop(key(1), seconds(600)));
  EXPECT_EQ(await_end(key(1)).phase, MemberPhase::kEnded);
  expect_nothing_left(key(1));
}

TEST_P(Crash, EveryMemberOfADaemonKilledAtAnyMomentIsFoundOrGone) {
  std::uint64_t job = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = job + 1;
    const pid_t daemon = ::fork();
    if (daemon == 0) {
      const auto own = other_runtime();
      for (std::uint64_t next = first;; ++next) (void)own->start(busy(next));
    }
    wait_a_moment(40'000);
    ASSERT_GT(daemon, 1);
    ::kill(daemon, SIGKILL);
    ASSERT_EQ(::waitpid(daemon, nullptr, 0), daemon);

    runtime_ = other_runtime();
    const auto found = runtime_->find();
    ASSERT_TRUE(found);
    for (const MemberReport& listed : *found) {
      if (listed.key.job.value() < first) continue;
      const MemberReport member = runtime_->find(listed.key).value_or(listed);
      job = std::max(job, member.key.job.value());
      if (member.phase == MemberPhase::kLost) {
        expect_nothing_left(member.key);
        continue;
      }
      EXPECT_TRUE(runtime_->stop(member.key, seconds(0)));
      EXPECT_EQ(await_end(member.key).phase, MemberPhase::kEnded);
      expect_nothing_left(member.key);
    }
  }
  // No shepherd has come later and started what was given up.
  for (std::uint64_t each = 1; each <= job; ++each) {
    EXPECT_LE(times_started(key(each)), 1U) << each;
    expect_nothing_left(key(each));
  }
}

TEST_P(Crash, ProcessesOfAKilledShepherdAreKilled) {
  for (std::uint64_t job = 1; job <= kRounds; ++job) {
    start(busy(job));
    const sys::ProcessMark shepherd = watch_of(key(job)).shepherd;
    ASSERT_GT(shepherd.pid, 1);
    wait_a_moment(15'000);
    ::kill(shepherd.pid, SIGKILL);
    const MemberReport report = await_end(key(job));
    EXPECT_EQ(report.phase, MemberPhase::kLost);
    EXPECT_EQ(report.end->signal, SIGKILL);
    EXPECT_EQ(report.end->reason, "the process that looked after it was killed");
    EXPECT_LE(times_started(key(job)), 1U);
    expect_nothing_left(key(job));
  }
}

TEST_P(Crash, AShepherdKilledDuringAStopLeavesNoProcess) {
  for (std::uint64_t job = 1; job <= kRounds; ++job) {
    start(busy(job));
    const sys::ProcessMark shepherd = watch_of(key(job)).shepherd;
    ASSERT_GT(shepherd.pid, 1);
    (void)runtime_->stop(key(job), seconds(0));
    wait_a_moment(10'000);
    // It may have ended in order by now, and its number may be another's.
    if (const auto process = sys::open_process(shepherd)) ::kill(shepherd.pid, SIGKILL);
    EXPECT_NE(await_end(key(job)).phase, MemberPhase::kLiving);
    expect_nothing_left(key(job));
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, Crash, ::testing::Values(true, false), [](const auto& which) {
  return which.param ? "WithControlGroups" : "WithoutControlGroups";
});

}  // namespace
}  // namespace divvy::run
