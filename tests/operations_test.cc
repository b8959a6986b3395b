// The daemon as an operator meets it: its configuration, a reload, the service manager, and what it
// keeps of root's powers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/text.h"
#include "divvyd_machine.h"
#include "sys/privileges.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Operations : public Machine {
 protected:
  fs::path file() const { return folder() / "divvyd.yaml"; }
  void write(std::string_view text) const { std::ofstream(file()) << text; }
  void start_with_file() { start_daemon_as({DIVVYD_PROGRAM, "--config", file()}); }
  bool logged(std::string_view piece) const {
    return eventually([&] { return daemon_log().find(piece) != std::string::npos; });
  }
  mode_t socket_mode() const {
    struct stat status{};
    EXPECT_EQ(::stat((folder() / "run/divvyd.sock").c_str(), &status), 0);
    return status.st_mode & 0777U;
  }
};

TEST_F(Operations, CheckConfigNamesEveryProblemWithItsPlace) {
  write("log:\n  levle: info\nhealth:\n  sample_interval: 5\n");
  const Outcome wrong = start({DIVVYD_PROGRAM, "--check-config", file()}, "check").finish();
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(
      wrong.err,
      fmt::format("{0}:2:3: there is no setting in log called \"levle\"; did you mean level?\n"
                  "{0}:4:20: health.sample_interval: a time needs a unit; did you mean 5s?\n",
                  file().string()));
  write("log:\n  level: debug\n");
  const Outcome right = start({DIVVYD_PROGRAM, "--config", file(), "--check-config"}, "c").finish();
  EXPECT_EQ(right.status, 0) << right.err;
  const Outcome missing = start({DIVVYD_PROGRAM, "--check-config", "/no/file"}, "check").finish();
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("/no/file"));
}

TEST_F(Operations, AWrongFileIsNoReasonToStartWithDefaults) {
  write("colour: red\n");
  const Outcome outcome = start({DIVVYD_PROGRAM, "--config", file()}, "wrong").finish();
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr(":1:1: there is no section \"colour\""));
}

TEST_F(Operations, AWrongSettingOnTheCommandLineIsNotLeftOut) {
  for (const char* const wrong : {"nonsense=3", "health.sample_interval=soon", "queue.policy"}) {
    const Outcome outcome =
        start({DIVVYD_PROGRAM, "--set", wrong, "--print-config"}, "wrong").finish();
    EXPECT_EQ(outcome.status, 2) << wrong;
    EXPECT_TRUE(outcome.err.starts_with(std::string("divvyd: --set ") + wrong + ": "))
        << outcome.err;
  }
}

TEST_F(Operations, PrintsTheSettingsThatHoldAsAFileThatIsRight) {
  write("log:\n  level: error\nsocket: {mode: 0640}\n");
  const Outcome printed =
      start({DIVVYD_PROGRAM, "--config", file(), "--log-level", "debug", "--print-config"}, "p")
          .finish();
  EXPECT_EQ(printed.status, 0);
  EXPECT_THAT(printed.out, HasSubstr("\n  level: debug\n"));
  EXPECT_THAT(printed.out, HasSubstr("\n  mode: 0640\n"));
  // The environment of this machine goes before the file.
  EXPECT_THAT(printed.out, HasSubstr("\n  run: " + (folder() / "run").string() + "\n"));
  write(printed.out);
  EXPECT_EQ(start({DIVVYD_PROGRAM, "--check-config", file()}, "check").finish().status, 0);
}

TEST_F(Operations, AReloadTakesOverWhatCanChangeAndNamesWhatCannot) {
  write("log: {level: info}\nsocket: {mode: 0666}\n");
  start_with_file();
  EXPECT_EQ(socket_mode(), 0666U);
  write(
      "log: {level: debug, json: true}\nsocket: {mode: 0640}\nfolders: {state: /elsewhere}\n"
      "metrics: {address: 127.0.0.1:9401}\n");
  ::kill(daemon_pid(), SIGHUP);
  ASSERT_TRUE(logged("configuration read again"));
  EXPECT_TRUE(logged("log.level: info -> debug"));
  EXPECT_TRUE(logged("metrics.address needs a restart"));
  EXPECT_TRUE(logged("{\"time\":"));
  EXPECT_EQ(socket_mode(), 0640U);
  EXPECT_EQ(ask("GET", "/v1/node").status, 200);
}

TEST_F(Operations, AReloadWithAWrongFileKeepsTheOldSettings) {
  write("socket: {mode: 0660}\n");
  start_with_file();
  write("socket: {mode: 0666}\nlgo: {}\nlog: {level: loud}\n");
  ::kill(daemon_pid(), SIGHUP);
  ASSERT_TRUE(logged("log.level: \\\"loud\\\" is none of"));
  EXPECT_TRUE(logged("did you mean log?"));
  EXPECT_EQ(socket_mode(), 0660U);
  write("socket: {mode: 0600}\n");
  ::kill(daemon_pid(), SIGHUP);
  ASSERT_TRUE(logged("configuration read again"));
  EXPECT_EQ(socket_mode(), 0600U);
}

// The other end of NOTIFY_SOCKET.
class ServiceManager {
 public:
  explicit ServiceManager(const fs::path& path)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path.string().copy(name.sun_path, sizeof name.sun_path - 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  }
  // Passes over messages of the watchdog unless that is what is waited for.
  std::string next(bool watchdog = false) const {
    for (;;) {
      pollfd wait{socket_.get(), POLLIN, 0};
      if (::poll(&wait, 1, 30'000) != 1) return "nothing was said";
      char buffer[1024];
      const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      const std::string text(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (text.starts_with("WATCHDOG=1") == watchdog) return text;
    }
  }

 private:
  UniqueFd socket_;
};

TEST_F(Operations, TellsTheServiceManagerHowItIsDoing) {
  const ServiceManager manager(folder() / "notify");
  environment_.push_back("NOTIFY_SOCKET=" + (folder() / "notify").string());
  environment_.emplace_back("WATCHDOG_USEC=100000");
  write("");
  start_with_file();
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=2 GPUs, 0 tenants, 0 waiting.");
  grant(R"({"gpu":"0.3"})");
  EXPECT_TRUE(eventually(
      [&] { return manager.next(true) == "WATCHDOG=1\nSTATUS=2 GPUs, 1 tenants, 0 waiting."; }));
  ::kill(daemon_pid(), SIGHUP);
  EXPECT_THAT(manager.next(), StartsWith("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_THAT(manager.next(), StartsWith("READY=1\n"));
  write("wrong");
  ::kill(daemon_pid(), SIGHUP);
  EXPECT_THAT(manager.next(), StartsWith("RELOADING=1\n"));
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=The configuration is wrong; the old settings hold.");
  stop_daemon(SIGTERM);
  EXPECT_THAT(manager.next(), StartsWith("STOPPING=1\n"));
}

// Of the text of /proc/PID/status.
std::uint64_t status_bits(const std::string& status, const std::string& name) {
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1), nullptr, 16);
  }
  ADD_FAILURE() << "no " << name << " in " << status;
  return 0;
}

TEST_F(Operations, KeepsOnlyTheDocumentedCapabilities) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has capabilities to give up";
  const std::uint64_t ours = status_bits(read("/proc/self/status"), "CapPrm");
  start_daemon();
  const auto used = sys::capability_bits(sys::kUsedCapabilities);
  const auto passed = sys::capability_bits(sys::kPassedCapabilities);
  const fs::path process = fmt::format("/proc/{}", daemon_pid());
  std::string children;
  for (const auto& thread : fs::directory_iterator(process / "task")) {
    const std::string status = read(thread.path() / "status");
    // A thread that has just answered a request may be gone by now.
    if (status.empty()) continue;
    EXPECT_EQ(status_bits(status, "CapEff"), used & ours) << status;
    EXPECT_EQ(status_bits(status, "CapPrm"), (used | passed) & ours) << status;
    EXPECT_EQ(status_bits(status, "CapBnd") & ~(used | passed), 0U) << status;
    EXPECT_EQ(status_bits(status, "NoNewPrivs"), 1U) << status;
    children += read(thread.path() / "children");
  }
  // The keeper, which only opens gates, and the sampler, which only asks the driver, have none.
  ASSERT_FALSE(trim(children).empty());
  for (const std::string_view child : split(trim(children), ' ')) {
    // It gives them up itself, as the first thing it does.
    EXPECT_TRUE(eventually([&child] {
      return status_bits(read(fmt::format("/proc/{}/status", child)), "CapPrm") == 0;
    })) << child;
  }
  const std::string page = read(DIVVY_OPERATIONS_PAGE);
  for (const std::string_view name : sys::kUsedCapabilities) {
    EXPECT_THAT(page, HasSubstr(fmt::format("| `CAP_{}` |", name)));
  }
  for (const std::string_view name : sys::kPassedCapabilities) {
    EXPECT_THAT(page, HasSubstr(fmt::format("| `CAP_{}` |", name)));
  }
}

// What the unit for systemd lets the daemon have.
std::vector<std::string> capabilities_of_the_unit() {
  std::ifstream file(DIVVY_UNIT);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kSetting = "CapabilityBoundingSet=";
    if (!line.starts_with(kSetting)) continue;
    for (const std::string_view name : split(std::string_view(line).substr(kSetting.size()), ' ')) {
      names.emplace_back(name.substr(std::string_view("CAP_").size()));
    }
  }
  return names;
}

TEST_F(Operations, TheUnitGivesItWhatItNeedsAndNoMore) {
  const auto names = capabilities_of_the_unit();
  const std::vector<std::string_view> unit(names.begin(), names.end());
  EXPECT_EQ(sys::capability_bits(unit), sys::capability_bits(sys::kUsedCapabilities) |
                                            sys::capability_bits(sys::kPassedCapabilities));
}

TEST_F(Operations, WorksWithNoMoreThanTheUnitGivesIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has capabilities to begin with";
  std::string set = "-all";
  for (const std::string& name : capabilities_of_the_unit()) set += ",+" + to_lower(name);
  start_daemon_as(
      {"/usr/bin/setpriv", "--no-new-privs", "--bounding-set", set, "--", DIVVYD_PROGRAM});
  const std::uint64_t ours = status_bits(read("/proc/self/status"), "CapPrm");
  EXPECT_EQ(status_bits(read(fmt::format("/proc/{}/status", daemon_pid())), "CapEff"),
            sys::capability_bits(sys::kUsedCapabilities) & ours);
  const Outcome outcome = divvy({"run", "--gpu", "0.5", "--", GPULOAD_PROGRAM, "info"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(Operations, KeepsWhatTheConfigurationAsksFor) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has capabilities to give up";
  write("privileges: {drop: false}\n");
  start_with_file();
  const std::uint64_t ours = status_bits(read("/proc/self/status"), "CapEff");
  EXPECT_EQ(status_bits(read(fmt::format("/proc/{}/status", daemon_pid())), "CapEff"), ours);
}

// Sockets are given to the tenant's user, its processes are watched and its pages shared: all of
// it with what is left of root's powers.
TEST_F(Operations, ServesOtherUsersWithWhatIsLeftOfItsPowers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  start_daemon();
  // The programs in a place that everybody can reach, wherever they were built.
  const fs::path home = folder() / "home";
  fs::create_directories(home / "bin");
  fs::create_directories(home / "lib");
  for (const char* program : {DIVVY_PROGRAM, GPULOAD_PROGRAM}) {
    fs::copy(program, home / "bin" / fs::path(program).filename());
  }
  fs::copy(fs::path(DIVVY_PROGRAM).parent_path().parent_path() / "lib/divvy", home / "lib/divvy",
           fs::copy_options::recursive);
  fs::permissions(folder(), fs::perms(0755));
  // The simulated GPUs are files of root's; real ones are devices that everybody may open.
  std::ofstream(folder() / "gpus.alive", std::ios::app).flush();
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().filename().string().starts_with("gpus")) {
      fs::permissions(entry.path(), fs::perms(0666));
    }
  }
  Program other = start({"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                         home / "bin/divvy", "run", "--name", "theirs", "--gpu", "0.3", "--",
                         home / "bin/gpuload", "alloc", "--chunk", "64MiB", "--limit", "256MiB"},
                        "other");
  const Outcome outcome = other.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(eventually([&] { return ask("GET", "/v1/tenants/theirs").status == 404; }));
}

// With CAP_SYS_PTRACE alone can the daemon see that a process of another user has let go of its
// pages though its number lives on.
TEST_F(Operations, NoticesThatAProcessOfAnotherUserHasReplacedItself) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  start_daemon();
  fs::permissions(folder(), fs::perms(0755));
  int joined[2];
  ASSERT_EQ(::pipe(joined), 0);
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &told, nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(9);
    const auto granted = grant(R"({"gpu":"0.3","name":"theirs"})");
    FakeProcess process{std::string(granted.at("environment").at("DIVVY_SOCKET").as_string())};
    const char good = process.join() && !process.refused() ? 1 : 0;
    (void)!::write(joined[1], &good, 1);
    // As exec does: the socket is closed, no page is mapped any more, and the process lives.
    int signal = 0;
    sigwait(&told, &signal);
    process.hang_up();
    sigwait(&told, &signal);
    ::_exit(0);
  }
  char good = 0;
  EXPECT_EQ(::read(joined[0], &good, 1), 1);
  EXPECT_EQ(good, 1);
  const auto processes = [&] {
    return ask("GET", "/v1/tenants/theirs").body.at("processes").as_array().size();
  };
  EXPECT_EQ(processes(), 1U);
  ::kill(child, SIGUSR1);
  EXPECT_TRUE(eventually([&] { return processes() == 0; }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(joined[0]);
  ::close(joined[1]);
}

TEST_F(Operations, TheDoctorOfAMachineWithSimulatedGpusFindsNoErrors) {
  start_daemon();
  const Outcome text = divvy({"doctor"});
  EXPECT_THAT(text.out, HasSubstr("2 simulated GPUs answer"));
  EXPECT_THAT(text.out, HasSubstr("divvyd runs and is version"));
  EXPECT_THAT(text.out, HasSubstr("can be loaded"));
  const Outcome outcome = divvy({"doctor", "-o", "json"});
  const auto document = boost::json::parse(outcome.out).as_object();
  for (const auto& finding : document.at("findings").as_array()) {
    const auto check = finding.at("check").as_string();
    if (check.starts_with("daemon.") || check.starts_with("driver.")) {
      EXPECT_NE(finding.at("verdict").as_string(), "error") << finding;
    }
  }
}

}  // namespace
}  // namespace divvy::testing
