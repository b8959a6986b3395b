// Older and newer parts of Divvy beside each other, and one daemon in place of another.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include "divvyd_machine.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Skew : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
    socket_ = grant(R"({"gpu":"0.3"})").at("environment").at("DIVVY_SOCKET").as_string();
  }
  std::string socket_;
};

TEST_F(Skew, ProcessesWithAnOlderLibraryAreLetIn) {
  for (std::uint32_t version = wire::kOldestWireVersion; version <= wire::kWireVersion; ++version) {
    FakeProcess process(socket_);
    process.speak(version);
    ASSERT_TRUE(process.join()) << version;
    EXPECT_FALSE(process.refused()) << process.welcome().reason;
    EXPECT_EQ(process.welcome().version, version);
    EXPECT_GT(process.control().gpu[0].memory_limit.load(), 0U);
  }
}

TEST_F(Skew, OneThatIsTooNewIsToldWhatIsSpokenAndIsLetInWithThat) {
  FakeProcess process(socket_);
  process.speak(wire::kWireVersion + 1);
  ASSERT_TRUE(process.join());
  ASSERT_TRUE(process.refused());
  EXPECT_EQ(process.welcome().refusal, static_cast<std::uint32_t>(wire::Refusal::kVersion));
  EXPECT_EQ(process.welcome().version, wire::kWireVersion);
  EXPECT_THAT(process.welcome().reason, HasSubstr("upgrade divvyd"));

  process.speak(process.welcome().version);
  ASSERT_TRUE(process.join());
  EXPECT_FALSE(process.refused()) << process.welcome().reason;
}

TEST_F(Skew, OneThatIsTooOldIsToldWhatToDo) {
  FakeProcess process(socket_);
  process.speak(wire::kOldestWireVersion - 1);
  ASSERT_TRUE(process.join());
  ASSERT_TRUE(process.refused());
  EXPECT_THAT(process.welcome().reason, HasSubstr("start the program anew"));
  // The tenant is none the worse for it.
  FakeProcess good(socket_);
  ASSERT_TRUE(good.join());
  EXPECT_FALSE(good.refused());
}

TEST_F(Skew, AnOlderLibraryFindsItsPlaceAgainAfterAnUpgrade) {
  FakeProcess process(socket_);
  process.speak(wire::kOldestWireVersion);
  ASSERT_TRUE(process.join());
  const std::uint32_t slot = process.welcome().slot;
  process.used(0) = 1 << 20;
  stop_daemon(SIGTERM);
  start_daemon();
  ASSERT_TRUE(eventually([&] { return process.join(); }));
  EXPECT_FALSE(process.refused()) << process.welcome().reason;
  EXPECT_EQ(process.welcome().slot, slot);
  EXPECT_EQ(process.used(0).load(), 1U << 20U);
}

class Upgrade : public Machine {
 protected:
  // Another installation of the same daemon.
  fs::path second_daemon() {
    const fs::path home = folder() / "second";
    const fs::path first = fs::path(DIVVYD_PROGRAM).parent_path().parent_path();
    fs::create_directories(home / "bin");
    fs::copy_file(DIVVYD_PROGRAM, home / "bin/divvyd");
    fs::create_directory_symlink(first / "lib", home / "lib");
    return home / "bin/divvyd";
  }

  // The tenant as it was told to users and programs, once it has its memory.
  std::optional<boost::json::object> busy_tenant() {
    const Answer answer = ask("GET", "/v1/tenants/busy");
    if (answer.status != 200) return std::nullopt;
    if (used_bytes(answer.body) < kHeld || !connected(answer.body)) return std::nullopt;
    return answer.body;
  }
  static std::uint64_t used_bytes(const boost::json::object& tenant) {
    return tenant.at("slices").as_array().at(0).at("memoryUsedBytes").to_number<std::uint64_t>();
  }
  static bool connected(const boost::json::object& tenant) {
    const auto& processes = tenant.at("processes").as_array();
    return processes.size() == 1 && processes[0].at("connected").as_bool();
  }

  // What the program allocates, with most of its context; the context alone is less.
  static constexpr std::uint64_t kHeld = 768U << 20U;
};

TEST_F(Upgrade, ATenantDoesNotNoticeThatTheDaemonWasReplaced) {
  start_daemon();
  Program load =
      start_divvy({"run", "--name", "busy", "--gpu", "0.3", "--", GPULOAD_PROGRAM, "alloc",
                   "--chunk", "64MiB", "--limit", "256MiB", "--hold-seconds", "1000"},
                  "busy");
  std::optional<boost::json::object> before;
  ASSERT_TRUE(eventually([&] { return (before = busy_tenant()).has_value(); }));
  const pid_t first = daemon_pid();

  // As systemd restarts a service with KillMode=process: the main process alone.
  stop_daemon(SIGTERM);
  start_daemon_as({second_daemon()});
  EXPECT_NE(daemon_pid(), first);
  std::optional<boost::json::object> after;
  ASSERT_TRUE(eventually([&] { return (after = busy_tenant()).has_value(); }));

  EXPECT_EQ(after->at("id"), before->at("id"));
  EXPECT_EQ(used_bytes(*after), used_bytes(*before));
  for (const char* field : {"gpu", "uuid", "share", "memoryLimitBytes"}) {
    const auto& old_slice = before->at("slices").as_array().at(0).as_object();
    if (!old_slice.contains(field)) continue;
    EXPECT_EQ(after->at("slices").as_array().at(0).at(field), old_slice.at(field)) << field;
  }
  EXPECT_EQ(after->at("processes").as_array()[0].at("pid"),
            before->at("processes").as_array()[0].at("pid"));
  // What it holds still counts: nobody else gets it.
  const Outcome more = divvy({"run", "--gpu", "1", "--device", "0", "--", "/bin/true"});
  const Outcome other = divvy({"run", "--gpu", "1", "--device", "1", "--", "/bin/true"});
  EXPECT_EQ(std::min(more.status, other.status), 0);
  EXPECT_EQ(std::max(more.status, other.status), 75);
  ::kill(load.pid(), SIGTERM);
  const Outcome outcome = load.finish();
  EXPECT_EQ(outcome.err.find("rror"), std::string::npos) << outcome.err;
  EXPECT_TRUE(eventually([&] { return ask("GET", "/v1/tenants/busy").status == 404; }));
}

}  // namespace
}  // namespace divvy::testing
