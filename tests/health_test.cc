// GPUs that fail and come back, under a real divvyd on simulated GPUs: who gets work, who is told,
// and that a driver that is stuck holds nobody.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "divvyd_machine.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

std::string text(const json::object& from, const char* name) {
  return from.at(name).is_null() ? "" : std::string(from.at(name).as_string());
}

class HealthMachine : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    // The times are short so that the test is; the order of things is the same.
    settings_ = {"sample_interval=20ms",    "idle_interval=40ms",    "answer_time=30s",
                 "quarantine_time=100ms",   "longest_quarantine=1s", "suspect_time=200ms",
                 "probation_interval=20ms", "grace_time=200ms"};
  }

  // Starts the daemon and waits until both GPUs were looked at: from then on XIDs are heard.
  void start_watching() {
    std::vector<std::string> arguments;
    for (const std::string& setting : settings_) {
      arguments.emplace_back("--set");
      arguments.push_back("health." + setting);
    }
    start_daemon(arguments);
    ASSERT_TRUE(eventually([this] { return sampled(0) && sampled(1); }));
  }

  bool sampled(std::size_t index) { return !gpu(index).at("sample").is_null(); }
  json::object gpu(std::size_t index) {
    return ask("GET", "/v1/gpus").body.at("items").at(index).as_object();
  }
  std::string state(std::size_t index) { return text(gpu(index), "state"); }
  pid_t sampler() {
    const json::value pid = ask("GET", "/v1/gpus").body.at("sampler").at("pid");
    return pid.is_null() ? -1 : static_cast<pid_t>(pid.as_int64());
  }

  void fault(const std::vector<std::string>& words) {
    std::vector<std::string> command = {SIMGPU_PROGRAM, "fault"};
    command.insert(command.end(), words.begin(), words.end());
    EXPECT_EQ(start(command, "simgpu").finish().status, 0);
  }

  // Waits for the next event of this kind that is about this GPU and after those that were waited
  // for before; with a state, for that one.
  json::object await(const std::string& kind, std::uint32_t index, const std::string& wanted = {}) {
    for (;;) {
      const Answer answer = ask("GET", fmt::format("/v1/events?since={}&wait=30", seen_));
      if (answer.status != 200 || answer.body.at("items").as_array().empty()) {
        ADD_FAILURE() << "no event " << kind << " " << wanted << " of GPU " << index << " came";
        return {};
      }
      for (const json::value& item : answer.body.at("items").as_array()) {
        const json::object& event = item.as_object();
        seen_ = event.at("number").to_number<std::uint64_t>();
        if (text(event, "kind") != kind || event.at("gpu").is_null() ||
            event.at("gpu").to_number<std::uint32_t>() != index ||
            (!wanted.empty() && text(event, "state") != wanted)) {
          continue;
        }
        return event;
      }
    }
  }

  std::vector<std::string> settings_;
  std::uint64_t seen_ = 0;
};

bool process_lives(pid_t pid) {
  std::ostringstream stat;
  stat << std::ifstream(fmt::format("/proc/{}/stat", pid)).rdbuf();
  return !stat.str().empty() && stat.str().find(") Z") == std::string::npos;
}

TEST_F(HealthMachine, AGpuThatFellOffTheBusIsQuarantinedAndComesBackThroughProbation) {
  start_watching();
  fault({"0", "lost"});
  const json::object condemned = await("health", 0, "quarantined");
  EXPECT_EQ(text(condemned, "reason"), "XID 79: the GPU has fallen off the bus");
  const Answer refused = ask("POST", "/v1/tenants", R"({"gpu":"0.5","devices":["0"]})");
  EXPECT_EQ(refused.status, 409);  // Not now; it may come back
  EXPECT_NE(json::serialize(refused.body).find("is quarantined: "), std::string::npos);
  // Somebody who does not care which one gets the other.
  const json::object granted = grant(R"({"gpu":"0.5"})");
  EXPECT_EQ(granted.at("slices").at(0).at("gpu").at("index").as_int64(), 1);

  Program waits = start_divvy({"run", "--wait", "--device", "0", "--", "/bin/true"}, "waits");
  ASSERT_TRUE(eventually([this] { return ask("GET", "/v1/node").body.at("waiting") == 1; }));
  // Whoever waits for the other one is not held up.
  Program other = start_divvy({"run", "--wait", "--device", "1", "--", "/bin/true"}, "other");
  ASSERT_TRUE(eventually([this] { return ask("GET", "/v1/node").body.at("waiting") == 2; }));
  EXPECT_EQ(ask("DELETE", fmt::format("/v1/tenants/{}", granted.at("id").as_int64())).status, 200);
  EXPECT_EQ(other.finish().status, 0);
  EXPECT_EQ(ask("GET", "/v1/node").body.at("waiting"), 1);
  fault({"0", "clear"});
  await("health", 0, "probation");
  await("health", 0, "healthy");
  const Outcome ran = waits.finish();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(state(1), "healthy");
}

TEST_F(HealthMachine, AnApplicationsMistakeChangesNothing) {
  start_watching();
  fault({"0", "xid", "13"});
  await("xid", 0);
  EXPECT_EQ(state(0), "healthy");
  EXPECT_TRUE(gpu(0).at("acceptsWork").as_bool());
}

TEST_F(HealthMachine, EveryFaultHasItsState) {
  settings_.emplace_back("hot_time=0ms");
  start_watching();
  fault({"0", "ecc"});
  EXPECT_EQ(text(await("health", 0, "quarantined"), "reason"),
            "XID 48: an uncorrectable memory error");
  fault({"1", "hot", "99"});
  EXPECT_EQ(text(await("health", 1, "suspect"), "reason").substr(0, 8), "too hot:");
  fault({"1", "clear"});
  await("health", 1, "healthy");
  fault({"1", "remap-pending"});
  await("health", 1, "suspect");
  fault({"1", "remap-failed"});
  await("health", 1, "quarantined");
  fault({"0", "clear"});
  await("health", 0, "healthy");
  fault({"1", "clear"});
  await("health", 1, "healthy");
  fault({"0", "xid", "94"});
  await("health", 0, "suspect");
  await("health", 0, "healthy");
  grant(R"({"gpu":"0.5","devices":["0"]})");
}

TEST_F(HealthMachine, NobodyGetsAGpuThatIsSuspect) {
  settings_.emplace_back("suspect_time=1h");
  start_watching();
  fault({"0", "xid", "94"});
  await("health", 0, "suspect");
  EXPECT_EQ(ask("POST", "/v1/tenants", R"({"gpu":"0.5","devices":["0"]})").status, 409);
  grant(R"({"gpu":"0.5","devices":["1"]})");
}

TEST_F(HealthMachine, AHangingGpuBlocksNobody) {
  settings_.emplace_back("answer_time=1s");
  start_watching();
  // With a context, so that the daemon asks the driver about it every second.
  Program unlucky = start_divvy({"run", "--gpu", "0.5", "--device", "1", "--name", "unlucky", "--",
                                 GPULOAD_PROGRAM, "spin", "--us", "1000", "--count", "100000000"},
                                "unlucky");
  ASSERT_TRUE(eventually([this] {
    const json::array tenants = ask("GET", "/v1/tenants").body.at("items").as_array();
    return !tenants.empty() && text(tenants.at(0).as_object(), "state") == "running";
  }));
  fault({"1", "hang"});
  await("health", 1, "suspect");
  EXPECT_EQ(text(await("health", 1, "quarantined"), "reason"), "does not answer");
  const Outcome ps = divvy({"ps"});
  EXPECT_EQ(ps.status, 0) << ps.err;
  EXPECT_NE(ps.out.find("failing"), std::string::npos) << ps.out;
  EXPECT_NE(ps.out.find("GPU 1 is quarantined: does not answer"), std::string::npos) << ps.out;
  const Outcome ran = divvy({"run", "--wait", "--gpu", "0.5", "--", GPULOAD_PROGRAM, "info"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const Outcome listed = divvy({"gpus"});
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_NE(listed.out.find("does not answer"), std::string::npos) << listed.out;
  const Outcome listed_by_daemon = divvy({"gpu", "list"});
  EXPECT_NE(listed_by_daemon.out.find("unlucky"), std::string::npos) << listed_by_daemon.out;
  fault({"1", "unhang"});
  await("health", 1, "healthy");
}

TEST_F(HealthMachine, AProbeThatDoesNotComeBackKeepsTheGpuInQuarantine) {
  // Nothing comes back in no time at all.
  settings_.emplace_back("probe_time=0ms");
  start_watching();
  fault({"0", "xid", "79"});
  await("health", 0, "quarantined");
  EXPECT_EQ(text(await("probe", 0), "reason"), "the probe did not come back");
  EXPECT_EQ(state(0), "quarantined");
}

TEST_F(HealthMachine, TenantsOfAFailingGpuAreToldAndEndedWhereTheOperatorWantsIt) {
  settings_.emplace_back("on_failure=end");
  start_watching();
  Program polite = start_divvy(
      {"run", "--gpu", "0.2", "--device", "0", "--name", "polite", "--", "/bin/sleep", "1000"},
      "polite");
  Program stubborn = start_divvy({"run", "--gpu", "0.2", "--device", "0", "--name", "stubborn",
                                  "--", "/bin/sh", "-c", "trap '' TERM; while :; do :; done"},
                                 "stubborn");
  Program other = start_divvy(
      {"run", "--gpu", "0.2", "--device", "1", "--name", "other", "--", "/bin/sleep", "1000"},
      "other");
  // Each has become its command, so that a trap that was asked for is set.
  ASSERT_TRUE(eventually(
      [this] { return ask("GET", "/v1/tenants").body.at("items").as_array().size() == 3; }));
  ASSERT_TRUE(eventually([&] {
    std::ostringstream status;
    status << std::ifstream(fmt::format("/proc/{}/status", stubborn.pid())).rdbuf();
    const std::string words = status.str();
    const std::size_t ignored = words.find("SigIgn:");
    return words.starts_with("Name:\tsh") && ignored != std::string::npos &&
           (std::stoull(words.substr(ignored + 8, 16), nullptr, 16) & (1U << (SIGTERM - 1))) != 0;
  }));
  fault({"0", "xid", "79"});
  await("health", 0, "quarantined");
  EXPECT_EQ(polite.finish().status, -SIGTERM);
  EXPECT_EQ(stubborn.finish().status, -SIGKILL);
  bool told = false;
  const Answer events = ask("GET", "/v1/events");
  for (const json::value& item : events.body.at("items").as_array()) {
    const json::object& event = item.as_object();
    EXPECT_NE(text(event, "tenant"), "other");
    told = told || (text(event, "tenant") == "polite" &&
                    text(event, "reason").starts_with("its GPU 0 is quarantined: XID 79"));
  }
  EXPECT_TRUE(told);
  EXPECT_TRUE(process_lives(other.pid()));
}

TEST_F(HealthMachine, ASamplerThatIsKilledComesBack) {
  settings_.emplace_back("answer_time=1s");
  start_watching();
  const pid_t first = sampler();
  ASSERT_GT(first, 0);
  ::kill(first, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const pid_t now = sampler();
    return now > 0 && now != first;
  }));
  const std::int64_t before = gpu(0).at("sample").at("takenUnixMilliseconds").as_int64();
  EXPECT_TRUE(eventually(
      [&] { return gpu(0).at("sample").at("takenUnixMilliseconds").as_int64() > before; }));
  EXPECT_EQ(state(0), "healthy");
  // And one that is stuck as a whole is replaced.
  const pid_t second = sampler();
  ASSERT_GT(second, 0);
  ::kill(second, SIGSTOP);
  EXPECT_TRUE(eventually([&] {
    const pid_t now = sampler();
    return now > 0 && now != second;
  }));
  EXPECT_TRUE(eventually([&] { return !process_lives(second); }));
  EXPECT_TRUE(eventually([&] { return state(0) == "healthy"; }));
}

TEST_F(HealthMachine, ADaemonThatIsKilledLeavesNoSampler) {
  start_watching();
  const pid_t child = sampler();
  ASSERT_GT(child, 0);
  stop_daemon(SIGKILL);
  EXPECT_TRUE(eventually([child] { return !process_lives(child); }));
}

TEST_F(HealthMachine, ACordonOutlivesTheDaemon) {
  start_watching();
  const Outcome cordoned = divvy({"gpu", "cordon", "1", "--reason", "new fan"});
  EXPECT_EQ(cordoned.out, "GPU 1 is healthy and cordoned; nobody is on it\n") << cordoned.err;
  stop_daemon(SIGKILL);
  start_watching();
  EXPECT_TRUE(gpu(1).at("cordoned").as_bool());
  EXPECT_FALSE(gpu(0).at("cordoned").as_bool());
  const Outcome uncordoned = divvy({"gpu", "uncordon", text(gpu(1), "uuid")});
  EXPECT_EQ(uncordoned.out, "GPU 1 is healthy\n") << uncordoned.err;
}

TEST_F(HealthMachine, AnOperatorTakesAGpuOutOfUseAndGivesItBack) {
  start_watching();
  const Outcome cordoned = divvy({"gpu", "cordon", "0", "--reason", "new fan"});
  EXPECT_EQ(cordoned.out, "GPU 0 is healthy and cordoned; nobody is on it\n") << cordoned.err;
  const Answer refused = ask("POST", "/v1/tenants", R"({"gpu":"0.5","devices":["0"]})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_NE(json::serialize(refused.body).find("is cordoned: new fan"), std::string::npos);
  const Outcome uncordoned = divvy({"gpu", "uncordon", "0"});
  EXPECT_EQ(uncordoned.out, "GPU 0 is healthy\n") << uncordoned.err;

  Program tenant =
      start_divvy({"run", "--device", "0", "--name", "long", "--", "/bin/sleep", "1000"}, "tenant");
  ASSERT_TRUE(eventually(
      [this] { return !ask("GET", "/v1/tenants").body.at("items").as_array().empty(); }));
  const Outcome drained = divvy({"gpu", "drain", "0", "--reason", "new fan"});
  EXPECT_EQ(drained.out, "GPU 0 is healthy and draining; still on it: long\n") << drained.err;
  EXPECT_EQ(text(await("tenant", 0), "reason"),
            "its GPU 0 is being drained: new fan; end it when you can");
  // A deadline that is over ends it.
  EXPECT_EQ(divvy({"gpu", "drain", "0", "--deadline", "0"}).status, 0);
  EXPECT_EQ(tenant.finish().status, -SIGTERM);
  await("drained", 0);
  EXPECT_EQ(divvy({"gpu", "cordon", "7"}).status, 3);
  EXPECT_EQ(divvy({"gpu", "cordon", "0", "--deadline", "1"}).status, 2);
}

TEST_F(HealthMachine, OnlyRootAndTheDaemonsUserTakeAGpuOutOfUse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  start_watching();
  std::filesystem::permissions(folder(), std::filesystem::perms(0755));
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    const bool sees = ask("GET", "/v1/gpus").status == 200;
    const bool denied = ask("POST", "/v1/gpus/0/cordon").status == 403 &&
                        ask("POST", "/v1/gpus/0/drain").status == 403 &&
                        ask("POST", "/v1/gpus/0/uncordon").status == 403;
    ::_exit(sees && denied ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(gpu(0).at("cordoned").as_bool());
  EXPECT_EQ(ask("POST", "/v1/gpus/0/cordon", R"({"deadlineSeconds":1})").status, 400);
  EXPECT_EQ(ask("POST", "/v1/gpus/0/paint").status, 404);
  EXPECT_EQ(ask("POST", "/v1/gpus/9/cordon").status, 404);
  EXPECT_EQ(ask("DELETE", "/v1/gpus").status, 405);
  EXPECT_EQ(ask("GET", "/v1/events?since=x").status, 400);
}

TEST_F(HealthMachine, EventsAreFollowedAsTheyHappen) {
  start_watching();
  Program follower = start_divvy({"events", "--follow", "-o", "json"}, "follower");
  fault({"1", "xid", "62"});
  await("health", 1, "quarantined");
  const auto has_seen_it = [this] {
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      if (!entry.path().filename().string().starts_with("follower")) continue;
      std::ostringstream all;
      all << std::ifstream(entry.path()).rdbuf();
      if (all.str().find("XID 62: the power unit has halted") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(eventually(has_seen_it));
  const Outcome all = divvy({"events"});
  EXPECT_NE(all.out.find("quarantined  XID 62"), std::string::npos) << all.out;
}

}  // namespace
}  // namespace divvy::testing
