#include "run/machine_runtime.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "run/child.h"
#include "run/testing.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

class Members : public RuntimeTest {};

TEST_F(Members, TellHowTheyEnded) {
  EXPECT_TRUE(run(plain(1, {"true"})).succeeded());
  EXPECT_EQ(run(shell(2, "exit 37")).exit_code, 37);
  const model::MemberEnd killed = run(shell(3, "kill -SEGV $$"));
  EXPECT_EQ(killed.signal, SIGSEGV);
  EXPECT_FALSE(killed.succeeded());
  const model::MemberEnd missing = run(plain(4, {"no-such-program"}));
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.reason, "could not be started: no-such-program: No such file or directory");
  EXPECT_EQ(run(plain(5, {"/etc/passwd"})).exit_code, 126);
}

TEST_F(Members, TellWhatTheyUsed) {
  // tail keeps what it may have to print; the shell's own child has the work, not its first
  // process.
  const model::MemberEnd end =
      run(shell(1, "head -c 50000000 /dev/zero | tail -c 50000000 | wc -c"));
  ASSERT_TRUE(end.succeeded());
  ASSERT_TRUE(end.use.cpu.has_value());
  EXPECT_GT(*end.use.cpu, Duration(0));
  ASSERT_TRUE(end.use.ram_peak.has_value());
  EXPECT_GE(*end.use.ram_peak, Bytes(50'000'000));
  const model::MemberEnd never = run(plain(2, {"no-such-program"}));
  EXPECT_EQ(never.use, model::MemberUse());
}

TEST_F(Members, LeaveTheirOutputWithTimesAndStreams) {
  const WallTime before = clock_.wall_now();
  run(shell(1, "echo out; echo err >&2; printf 'no end'"));
  const auto found = lines(key(1));
  ASSERT_EQ(found.size(), 3U);
  for (const LogLine& line : found) {
    EXPECT_EQ(line.stream, line.text == "err" ? LogStream::kStderr : LogStream::kStdout);
    EXPECT_GE(line.at, before);
    EXPECT_LE(line.at, clock_.wall_now());
  }
  EXPECT_EQ(found.back().text, "no end");
}

TEST_F(Members, HaveTheirEnvironmentAndFolderAndNothingOfTheDaemons) {
  ::setenv("ONLY_THE_DAEMONS", "secret", 1);
  MemberStart member = shell(1, "env; pwd; echo \"<$GREETING>\"");
  member.environment["GREETING"] = "two\nlines";
  member.working_directory = "/usr";
  run(member);
  const std::string text = output(key(1));
  EXPECT_NE(text.find("<two\nlines>\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n/usr\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("ONLY_THE_DAEMONS"), std::string::npos) << text;
  member = shell(2, "true");
  member.working_directory = "/no/such/folder";
  EXPECT_EQ(run(member).exit_code, 126);
}

TEST_F(Members, HaveSecretsThatAreInNoFile) {
  MemberStart member = shell(1, "echo ${#HUB}; sleep 1000");
  member.secrets = {{"HUB", "hf_\"quoted\"\nsecret"}};
  start(member);
  await_line(key(1), "18");
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(text.find("quoted"), std::string::npos) << entry.path();
  }
  // The shepherd keeps no descriptor of them.
  for (const auto& entry :
       fs::directory_iterator(fmt::format("/proc/{}/fd", watch_of(key(1)).shepherd.pid))) {
    std::error_code code;
    EXPECT_EQ(fs::read_symlink(entry.path(), code).string().find("divvy-secrets"),
              std::string::npos);
  }
  EXPECT_TRUE(runtime_->stop(key(1), seconds(30)));
  EXPECT_EQ(await_end(key(1)).end->signal, SIGTERM);
}

TEST_F(Members, RunAsTheUserOfTheJob) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  MemberStart member =
      shell(1, "id -u; id -g; id -G; echo again > /dev/stdout; echo $$; exec sleep 1000");
  member.uid = 65534;
  member.gid = 65533;
  member.groups = {65532};
  start(member);
  await_line(key(1), "again");
  EXPECT_EQ(output(key(1)).substr(0, 30), "65534\n65533\n65533 65532\nagain\n");
  // Its shepherd is not its own to end.
  struct stat info{};
  ASSERT_EQ(::stat(fmt::format("/proc/{}", watch_of(key(1)).shepherd.pid).c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
  EXPECT_TRUE(runtime_->stop(key(1), seconds(30)));
  EXPECT_EQ(await_end(key(1)).end->signal, SIGTERM);
}

TEST_F(Members, HaveTheirUlimits) {
  MemberStart member = shell(1, "ulimit -Sn; ulimit -Hn");
  member.limits.ulimits["nofile"] = {100, 200};
  run(member);
  EXPECT_EQ(output(key(1)), "100\n200\n");
  member.key = key(2);
  member.limits.ulimits = {{"nonsense", {1, 1}}};
  const model::MemberEnd end = run(member);
  EXPECT_EQ(end.exit_code, 126);
  EXPECT_NE(end.reason.find("nonsense"), std::string::npos) << end.reason;
}

TEST(UlimitRefusal, NamesBothLimitsAndTheRemedy) {
  EXPECT_EQ(ulimit_refusal("memlock", {model::Ulimit::kUnlimited, model::Ulimit::kUnlimited}, 64),
            "limits.ulimits: memlock cannot be unlimited, because the daemon's own is 64; ask for "
            "less, or have the operator raise it (Limit...= in its unit)");
}

TEST_F(Members, AreNeverStartedTwice) {
  const fs::path starts = folder_.path() / "starts";
  const MemberStart member = shell(1, "echo start >> " + starts.string());
  EXPECT_TRUE(run(member).succeeded());
  const Status again = runtime_->start(member);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  const Status elsewhere = new_runtime()->start(member);
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(fs::file_size(starts), 6U);
}

TEST_F(Members, AreFoundUntilTheyAreForgotten) {
  start(plain(1, {"true"}));
  start(plain(2, {"sleep", "1000"}));
  await_end(key(1));
  const auto found = runtime_->find();
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ((*found)[0].phase, MemberPhase::kEnded);
  EXPECT_EQ((*found)[1].phase, MemberPhase::kLiving);
  EXPECT_EQ(runtime_->forget(key(2)).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(runtime_->forget(key(1)));
  EXPECT_EQ(runtime_->find(key(1)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(runtime_->stop(key(1), seconds(0)).error().code, ErrorCode::kNotFound);
}

// A podman that hangs (its storage is locked) with a container whose shepherd was killed.
TEST_F(Members, AreReportedWhilePodmanHangsForAnother) {
  const fs::path base = folder_.path();
  std::ofstream(base / "podman") << fmt::format(
      "case $1 in run) exec sleep 1000 ;; rm) echo >> {0}/removals; read _ < {0}/gate ;; esac\n",
      base.string());
  ASSERT_EQ(::mkfifo((base / "gate").c_str(), 0600), 0);
  auto settings = options();
  settings.podman.program = {"/bin/sh", (base / "podman").string()};
  runtime_ = *MachineRuntime::create(settings, clock_);
  MemberStart container = plain(1, {"true"});
  container.container.emplace().image = "example.org/image:1";
  start(container);
  ::kill(watch_of(key(1)).shepherd.pid, SIGKILL);
  while (!fs::exists(base / "removals")) {
    pollfd wait{runtime_->watch_fd(), POLLIN, 0};
    (void)::poll(&wait, 1, 10);
    ASSERT_TRUE(runtime_->changes().empty());
  }

  start(shell(2, "exit 3"));
  std::vector<MemberReport> heard;
  while (heard.empty()) {
    pollfd wait{runtime_->watch_fd(), POLLIN, 0};
    (void)::poll(&wait, 1, -1);
    heard = runtime_->changes();
  }
  EXPECT_EQ(heard[0].key, key(2));
  EXPECT_EQ(runtime_->find()->at(0).phase, MemberPhase::kLiving) << "not all of it is gone";
  EXPECT_EQ(fs::file_size(base / "removals"), 1U) << "nobody has waited for it in vain";

  std::ofstream(base / "gate") << "go on\n";
  EXPECT_EQ(await_end(key(1)).phase, MemberPhase::kLost);
}

TEST_F(Members, GetSigtermBeforeSigkill) {
  // Loops without a child: a shell that hears a signal while it starts one waits for the child
  // first.
  start(shell(1, "trap 'echo asked; exit 7' TERM; echo ready; while :; do :; done"));
  await_line(key(1), "ready");
  EXPECT_TRUE(runtime_->stop(key(1), seconds(600)));
  const MemberReport report = await_end(key(1));
  EXPECT_EQ(report.end->exit_code, 7);
  EXPECT_NE(output(key(1)).find("asked\n"), std::string::npos);
  EXPECT_TRUE(runtime_->stop(key(1), seconds(0))) << "one that has ended is as wished";
}

TEST_F(Members, ThatIgnoreSigtermAreKilledAfterTheGracePeriod) {
  start(shell(1, "trap 'echo ignored' TERM; echo ready; while :; do :; done"));
  await_line(key(1), "ready");
  EXPECT_TRUE(runtime_->stop(key(1), seconds(600)));
  await_line(key(1), "ignored");
  EXPECT_EQ(runtime_->find(key(1))->phase, MemberPhase::kLiving);
  // A second wish can only shorten the time.
  EXPECT_TRUE(runtime_->stop(key(1), seconds(0)));
  const MemberReport report = await_end(key(1));
  EXPECT_EQ(report.end->signal, SIGKILL);
  EXPECT_NE(report.end->reason.find("killed: it had not ended"), std::string::npos);
}

TEST_F(Members, LeaveNoProcessAndNoCgroup) {
  // Daemons of the old school: in sessions of their own, without their parents, and one of them
  // without its environment.
  start(shell(1,
              "setsid sh -c 'sleep 1000 & sleep 1001 & exit' & "
              "(env -i setsid sleep 1002 &) ; nohup sleep 1003 >/dev/null 2>&1 & "
              "sleep 0.01; echo ready; exit 5"));
  const pid_t shepherd = watch_of(key(1)).shepherd.pid;
  const MemberReport report = await_end(key(1));
  EXPECT_EQ(report.end->exit_code, 5);
  EXPECT_TRUE(processes_of(key(1)).empty());
  EXPECT_TRUE(sys::descendants(shepherd).empty());
  for (const std::string& group : watch_of(key(1)).groups) EXPECT_FALSE(fs::exists(group)) << group;
  EXPECT_FALSE(fs::exists(runtime_->folder_of(key(1)) / "door"));
}

TEST_F(Members, ThatAreStoppedGetSigcontWithSigterm) {
  start(shell(1, "echo ready; while :; do :; done"));
  await_line(key(1), "ready");
  for (const pid_t pid : processes_of(key(1))) ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  EXPECT_TRUE(runtime_->stop(key(1), seconds(600)));
  EXPECT_EQ(await_end(key(1)).end->signal, SIGTERM);
}

TEST_F(Members, GetSigtermWhenTheirShepherdDoes) {
  start(shell(1, "trap 'exit 9' TERM; echo ready; while :; do :; done"));
  await_line(key(1), "ready");
  const sys::ProcessMark shepherd = watch_of(key(1)).shepherd;
  ASSERT_GT(shepherd.pid, 1);
  // A terminal that closes is nothing to it; the end of the machine is.
  ::kill(shepherd.pid, SIGHUP);
  ::kill(shepherd.pid, SIGTERM);
  EXPECT_EQ(await_end(key(1)).end->exit_code, 9);
}

TEST_F(Members, AreStoppedBySignalWhenTheSocketIsMissing) {
  start(shell(1, "trap 'exit 9' TERM; echo ready; while :; do :; done"));
  await_line(key(1), "ready");
  fs::remove(runtime_->folder_of(key(1)) / "door");
  EXPECT_TRUE(runtime_->stop(key(1), seconds(0)));
  EXPECT_EQ(await_end(key(1)).end->exit_code, 9);
}

using Shepherd = Members;

TEST_F(Shepherd, ExitsWhenItsFolderIsRemoved) {
  const std::string gate = (folder_.path() / "gate").string();
  start(shell(1, fmt::format("echo ready; while [ ! -e {} ]; do sleep 0.05; done", gate)));
  // Then the shepherd has written all that it writes before the end, and nothing comes back.
  await_line(key(1), "ready");
  const pid_t shepherd = watch_of(key(1)).shepherd.pid;
  const UniqueFd watched(static_cast<int>(::syscall(SYS_pidfd_open, shepherd, 0U)));
  ASSERT_TRUE(watched);
  fs::remove_all(runtime_->folder_of(key(1)));
  std::ofstream(gate) << "open\n";
  pollfd wait{watched.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 30'000), 1) << "it waits for a folder that is gone";
}

// --- Limits ---

TEST_F(Members, ThatUseMoreMemoryThanTheyMayAreToldSo) {
  MemberStart member = plain(1, {"tail", "/dev/zero"});
  member.limits.ram = mib(32);
  const MemberReport report = await_end(start(member));
  if (!report.without.empty()) {
    // Where nothing can be limited, that is said in its output too.
    EXPECT_NE(report.without.find("no limit on memory: "), std::string::npos);
    GTEST_SKIP() << report.without;
  }
  EXPECT_EQ(report.end->signal, SIGKILL);
  EXPECT_EQ(report.end->reason, "out of memory: it needed more than its limit of 32MiB");
}

TEST_F(Members, HaveNoMoreProcessesThanTheyMay) {
  MemberStart member =
      shell(1, "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; echo unlimited");
  member.limits.pids = 4;
  const MemberReport report = await_end(start(member));
  if (!report.without.empty()) GTEST_SKIP() << report.without;
  EXPECT_FALSE(report.end->succeeded());
  EXPECT_EQ(output(key(1)).find("unlimited"), std::string::npos);
}

TEST_F(Members, SayWhatCouldNotBeLimited) {
  auto options = this->options();
  options.control_groups = false;
  runtime_ = *MachineRuntime::create(options, clock_);
  MemberStart member = plain(1, {"true"});
  member.limits.ram = mib(32);
  const MemberReport report = await_end(start(member));
  EXPECT_TRUE(report.end->succeeded());
  EXPECT_FALSE(report.without.empty());
  EXPECT_EQ(lines(key(1)).front().stream, LogStream::kDivvy);
}

}  // namespace
}  // namespace divvy::run
