// The real divvyd on a disk that fails (disk_faults.cc is preloaded): killed in the middle of every
// single operation on its ledger in turn, on a full disk, and with a ledger that is damaged, is
// another daemon's, or was written by a daemon of before.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "divvyd_machine.h"
#include "net/http.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr auto kPatience = std::chrono::seconds(30);

bool has_ended(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  return stat.empty() || stat.find(") Z") != std::string::npos;
}

class LedgerMachine : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    environment_.push_back("LD_PRELOAD=" DISK_FAULTS_LIBRARY);
    // A library in front of its own is no mistake here.
    environment_.push_back("ASAN_OPTIONS=verify_asan_link_order=0");
    environment_.push_back("DISK_FAULTS_FULL=" + full().string());
  }

  [[nodiscard]] fs::path full() const { return folder() / "full"; }
  [[nodiscard]] fs::path ledger() const { return folder() / "run/state/ledger"; }

  Outcome daemon_that_ends(const std::vector<std::string>& arguments = {}) {
    std::vector<std::string> command = {DIVVYD_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return start(command, "other").finish();
  }
};

// One life of a daemon that dies at some operation, and what it acknowledged before.
class DoomedDaemon {
 public:
  DoomedDaemon(fs::path run, Program program)
      : run_(std::move(run)), program_(std::move(program)) {}

  // The next one in the same folder.
  void take_over(Program program) { program_ = std::move(program); }

  // False when it died first.
  bool wait_until_ready() {
    bool ready = false;
    eventually([&] {
      ready = ask("GET", "/v1/node", "").has_value();
      return ready || has_ended(program_.pid());
    });
    silent_ = !ready;
    return ready;
  }

  void grant(const std::string& name) {
    asked_.insert(name);
    const auto answer =
        ask("POST", "/v1/tenants", fmt::format(R"({{"gpu":"0.1","name":"{}"}})", name));
    silent_ = silent_ || !answer;
    if (answer && answer->status == 201) acknowledged_.insert(name);
  }

  void release(const std::string& name) {
    // Whether it still is there nobody can know until it is answered.
    acknowledged_.erase(name);
    const auto answer = ask("DELETE", "/v1/tenants/" + name, "");
    silent_ = silent_ || !answer;
    if (answer && answer->status == 200) asked_.erase(name);
  }

  // What the next daemon in the same folder says.
  void compare() {
    const auto answer = ask("GET", "/v1/tenants", "");
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    const json::value document = json::parse(answer->body);
    std::multiset<std::string> found;
    std::int64_t share = 0;
    for (const json::value& item : document.at("items").as_array()) {
      found.emplace(item.at("name").as_string());
      share += item.at("slices").at(0).at("shareThousandths").as_int64();
    }
    for (const std::string& name : acknowledged_) EXPECT_EQ(found.count(name), 1U) << name;
    for (const std::string& name : found) {
      EXPECT_TRUE(asked_.contains(name)) << name;
      EXPECT_EQ(found.count(name), 1U) << name;
    }
    EXPECT_LE(share, 2000);
  }

  // One that left a question unanswered is on its way out, though it may take a moment.
  bool died() {
    if (!silent_) return false;
    EXPECT_EQ(program_.finish().status, -SIGKILL);
    return true;
  }

 private:
  [[nodiscard]] Result<net::HttpResponse> ask(const std::string& method, const std::string& path,
                                              const std::string& body) const {
    return net::http_request(run_ / "divvyd.sock",
                             {.method = method, .path = path, .query = {}, .body = body},
                             kPatience);
  }

  fs::path run_;
  Program program_;
  bool silent_ = false;
  std::set<std::string> asked_;  // May be there
  std::set<std::string> acknowledged_;
};

TEST_F(LedgerMachine, KilledDuringEveryWriteLosesNoSliceAndDuplicatesNone) {
  const auto plain = environment_;
  bool clean = false;
  int operation = 0;
  while (!clean && !HasFailure()) {
    SCOPED_TRACE(fmt::format("operation {}", ++operation));
    const fs::path run = folder() / fmt::format("r{}", operation);
    environment_ = plain;
    std::erase_if(environment_, [](const auto& one) { return one.starts_with("DIVVY_RUN_DIR="); });
    environment_.push_back("DIVVY_RUN_DIR=" + run.string());
    const auto healthy = environment_;
    environment_.push_back(fmt::format("DISK_FAULTS_KILL_AT={}", operation));

    DoomedDaemon daemon(run, start({DIVVYD_PROGRAM}, "doomed"));
    if (daemon.wait_until_ready()) {
      daemon.grant("one");
      daemon.grant("two");
      daemon.release("one");
      daemon.grant("three");
      daemon.release("three");
      daemon.grant("four");
    }
    clean = !daemon.died();
    if (clean) break;

    environment_ = healthy;
    // The keeper of one that died in its first moments may still hold the lock for an instant.
    ASSERT_TRUE(eventually([&] {
      daemon.take_over(start({DIVVYD_PROGRAM}, "next"));
      return daemon.wait_until_ready();
    }));
    daemon.compare();
  }
  // A start and six changes, each of which is written and synced.
  EXPECT_GE(operation, 16);
}

TEST_F(LedgerMachine, OnAFullDiskNothingIsGrantedAndEverythingElseGoesOn) {
  start_daemon();
  const json::object before = grant(R"({"gpu":"0.3","name":"before"})");
  const std::string socket(before.at("environment").at("DIVVY_SOCKET").as_string());
  FakeProcess process(socket);
  ASSERT_TRUE(process.join());
  std::ofstream(full()) << "x";

  const Outcome refused = divvy({"run", "--gpu", "0.3", "--", "/bin/true"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("no slice was granted"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("No space left on device; free some space there and try again"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(ask("POST", "/v1/tenants", R"({"gpu":"0.3"})").status, 500);
  EXPECT_EQ(ask("PATCH", "/v1/tenants/before", R"({"gpu":"0.5"})").status, 500);

  // Nothing of what was refused is held, and who was there goes on, also with new processes and
  // when the daemon is started anew.
  EXPECT_EQ(ask("GET", "/v1/tenants").body.at("items").as_array().size(), 1U);
  const auto id = before.at("id").to_number<std::uint64_t>();
  EXPECT_EQ(tenant(id)->at("slices").at(0).at("shareThousandths").as_int64(), 300);
  EXPECT_TRUE(process.measure(0).has_value());
  const pid_t another = ::fork();
  if (another == 0) {
    FakeProcess late(socket);
    ::_exit(late.join() && !late.refused() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(another, &status, 0);
  EXPECT_EQ(status, 0) << "a new process of the tenant";
  stop_daemon(SIGKILL);
  start_daemon();
  EXPECT_TRUE(tenant(id).has_value());
  ASSERT_TRUE(process.join());
  EXPECT_FALSE(process.refused()) << process.welcome().reason;

  fs::remove(full());
  EXPECT_EQ(divvy({"run", "--gpu", "0.3", "--", "/bin/true"}).status, 0) << "by itself";
  EXPECT_EQ(ask("PATCH", "/v1/tenants/before", R"({"gpu":"0.5"})").status, 200);
  EXPECT_EQ(divvy({"ledger", "verify"}).status, 0);
}

TEST_F(LedgerMachine, TwoDaemonsNeverShareALedger) {
  start_daemon();
  const Outcome second = daemon_that_ends(
      {"--run-dir", (folder() / "elsewhere").string(), "--state-dir", ledger().parent_path()});
  EXPECT_EQ(second.status, 3);
  EXPECT_NE(second.err.find(fmt::format("(pid {}) keeps its ledger in", daemon_pid())),
            std::string::npos)
      << second.err;
  grant(R"({"gpu":"0.3"})");
}

TEST_F(LedgerMachine, ADamagedLedgerIsNamedAndLeftAlone) {
  start_daemon();
  for (const char* name : {"first", "second", "third"}) {
    grant(fmt::format(R"({{"gpu":"0.1","name":"{}"}})", name));
  }
  EXPECT_EQ(divvy({"ledger", "verify"}).status, 0) << "while the daemon runs";
  stop_daemon(SIGTERM);
  std::string bytes;
  {
    std::ifstream file(ledger(), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  bytes[bytes.find("second")] ^= 1;
  std::ofstream(ledger(), std::ios::binary) << bytes;

  const Outcome verify = divvy({"ledger", "verify"});
  EXPECT_EQ(verify.status, 1);
  EXPECT_NE(verify.out.find("DAMAGED at byte"), std::string::npos) << verify.out;
  const Outcome show = divvy({"ledger", "show"});
  EXPECT_NE(show.out.find("first"), std::string::npos) << show.out;
  EXPECT_EQ(show.out.find("third"), std::string::npos) << show.out;
  const Outcome daemon = daemon_that_ends();
  EXPECT_EQ(daemon.status, 1);
  EXPECT_NE(daemon.err.find("is damaged at byte"), std::string::npos) << daemon.err;
  EXPECT_NE(daemon.err.find("move the file away"), std::string::npos) << daemon.err;

  fs::rename(ledger(), ledger().string() + ".damaged");
  start_daemon();
  EXPECT_TRUE(ask("GET", "/v1/tenants").body.at("items").as_array().empty());
}

TEST_F(LedgerMachine, ShowTellsTheSameWithAndWithoutTheDaemon) {
  EXPECT_EQ(divvy({"ledger", "show"}).status, 3) << "there is none yet";
  start_daemon();
  grant(R"({"gpu":"0.3","memory":"10GiB","name":"mine"})");
  const Outcome with = divvy({"ledger", "show"});
  EXPECT_EQ(with.status, 0) << with.err;
  EXPECT_NE(with.out.find("mine"), std::string::npos) << with.out;
  EXPECT_NE(with.out.find("10.0 GiB"), std::string::npos) << with.out;
  stop_daemon(SIGKILL);
  EXPECT_EQ(divvy({"ledger", "show"}).out, with.out);
}

TEST_F(LedgerMachine, TakesOverTheStateOfADaemonFromBeforeTheLedger) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  fs::create_directories(ledger().parent_path());
  fs::permissions(ledger().parent_path(), fs::perms::owner_all);
  const fs::path old = ledger().parent_path() / "tenants.json";
  std::ofstream(old) << fmt::format(R"({{"format":1,"boot":"{}","nextId":41,"tenants":[]}})", boot);
  start_daemon();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(grant(R"({"gpu":"0.3"})").at("id").to_number<int>(), 41);
}

}  // namespace
}  // namespace divvy::testing
