// `divvy run --mode mps` on simulated GPUs, with the simulated MPS control daemon: tenants that run
// at the same time instead of taking turns.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "divvyd_machine.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

bool has(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

// Is this one of the daemons? The command line of a process that has ended is empty.
bool is_control_daemon(pid_t pid) {
  if (pid <= 1) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  const std::string command((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  return has(command, DIVVY_MPS_FOLDER "/nvidia-cuda-mps-control");
}

class MpsRun : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    environment_[0] = "PATH=" DIVVY_MPS_FOLDER ":/usr/bin:/bin";
  }

  void TearDown() override {
    loads_.clear();
    Machine::TearDown();
  }

  // Those that live, as the folders say that divvyd keeps for them.
  std::vector<pid_t> control_daemons() {
    std::vector<pid_t> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder() / "run/mps", none)) {
      std::ifstream file(entry.path() / "process");
      std::string gpu;
      pid_t pid = 0;
      if (file >> gpu >> pid && is_control_daemon(pid)) found.push_back(pid);
    }
    return found;
  }

  // Kernels without end on the first GPU, as many as its share lets run.
  void start_load(const std::string& name, const std::string& share) {
    loads_.push_back(start_divvy(
        {"run", "--mode", "mps", "--name", name, "--gpu", share, "--gpu-mem", "4GiB", "--device",
         "0", "--", GPULOAD_PROGRAM, "spin", "--us", "5000", "--seconds", "600"},
        name));
    ASSERT_TRUE(eventually([&] { return ask("GET", "/v1/tenants/" + name).status == 200; }));
  }

  void end_load() {
    loads_.back().signal(SIGKILL);
    (void)loads_.back().finish();
    loads_.pop_back();
  }

  // Thousandths of the GPU; nothing while nobody knows.
  std::optional<std::int64_t> used(const std::string& name) {
    const json::object tenant = ask("GET", "/v1/tenants/" + name).body;
    const json::value& share = tenant.at("slices").at(0).at("usedShareThousandths");
    if (share.is_null()) return std::nullopt;
    return share.to_number<std::int64_t>();
  }

  std::string cdi_file(const std::string& slice) {
    std::ifstream file(folder() / "run/cdi" / ("divvy.dev-slice_" + slice + ".json"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::vector<Program> loads_;
};

TEST_F(MpsRun, TwoTenantsRunAtTheSameTimeThroughOneDaemon) {
  start_daemon();
  start_load("small", "0.3");
  const std::vector<pid_t> first = control_daemons();
  ASSERT_EQ(first.size(), 1U);
  start_load("large", "0.7");
  EXPECT_EQ(control_daemons(), first) << "the second tenant uses the daemon of the first";

  // Each alone could not have more than its part, so together near the whole means side by side.
  EXPECT_TRUE(eventually([&] {
    const auto small = used("small");
    const auto large = used("large");
    return small && large && *small >= 250 && *small <= 350 && *large >= 600 && *large <= 750;
  }));
  const json::object tenant = ask("GET", "/v1/tenants/small").body;
  EXPECT_EQ(tenant.at("mode").as_string(), "mps");
  EXPECT_EQ(tenant.at("state").as_string(), "running");
  EXPECT_EQ(tenant.at("slices").at(0).at("usedShareMeasuredBy").as_string(), "driver");

  // Who takes turns cannot share a GPU with who does not.
  const Outcome turns = divvy({"run", "--gpu", "0.1", "--device", "0", "--", "/bin/true"});
  EXPECT_EQ(turns.status, 75) << turns.err;

  end_load();
  EXPECT_TRUE(eventually([&] { return ask("GET", "/v1/tenants/large").status == 404; }));
  EXPECT_EQ(control_daemons(), first) << "somebody still uses it";
  end_load();
  EXPECT_TRUE(
      eventually([&] { return control_daemons().empty() && !is_control_daemon(first.front()); }));
}

TEST_F(MpsRun, TheCommandIsToldWhereItsDaemonIsAndHowMuchItMayUse) {
  start_daemon();
  const Outcome outcome =
      divvy({"run", "--mode", "mps", "--gpu", "0.3", "--device", "0", "--", "/usr/bin/env"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "CUDA_MPS_PIPE_DIRECTORY=" + (folder() / "run/mps/").string()))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\n")) << outcome.out;
  EXPECT_TRUE(eventually([&] { return control_daemons().empty(); }));
}

TEST_F(MpsRun, AKilledDaemonIsStartedAgain) {
  start_daemon();
  start_load("worker", "0.5");
  const std::vector<pid_t> before = control_daemons();
  ASSERT_EQ(before.size(), 1U);
  ::kill(before.front(), SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const std::vector<pid_t> now = control_daemons();
    return now.size() == 1 && now != before;
  }));
  // The next tenant finds it.
  EXPECT_EQ(
      divvy({"run", "--mode", "mps", "--gpu", "0.5", "--device", "0", "--", "/bin/true"}).status,
      0);
}

TEST_F(MpsRun, ADaemonInUseSurvivesARestartOfDivvyd) {
  start_daemon();
  start_load("worker", "0.5");
  const std::vector<pid_t> before = control_daemons();
  ASSERT_EQ(before.size(), 1U);
  stop_daemon(SIGKILL);
  start_daemon();
  EXPECT_EQ(control_daemons(), before);
  end_load();
  EXPECT_TRUE(eventually([&] { return control_daemons().empty(); }));
}

TEST_F(MpsRun, ADaemonThatNobodyUsesAnyMoreIsEndedByTheNextDivvyd) {
  start_daemon();
  start_load("worker", "0.5");
  ASSERT_EQ(control_daemons().size(), 1U);
  stop_daemon(SIGKILL);
  end_load();
  start_daemon();
  EXPECT_TRUE(eventually([&] { return control_daemons().empty(); }));
}

TEST_F(MpsRun, AJobRunsInTheModeThatWasAskedForOrThatTheMachineIsSetTo) {
  std::ofstream(folder() / "divvyd.yaml") << "sharing:\n  mode: mps\n";
  start_daemon({"--config", (folder() / "divvyd.yaml").string()});
  const auto pipe_of = [&](const std::vector<std::string>& how) {
    std::vector<std::string> words = {"submit", "--wait", "--gpu", "0.5"};
    words.insert(words.end(), how.begin(), how.end());
    const std::vector<std::string> command = {"--", "/bin/sh", "-c",
                                              "echo \"in ${CUDA_MPS_PIPE_DIRECTORY:-turns}\""};
    words.insert(words.end(), command.begin(), command.end());
    const Outcome submitted = divvy(words);
    EXPECT_EQ(submitted.status, 0) << submitted.err;
    const json::object jobs = ask("GET", "/v1/jobs").body;
    return divvy({"logs", json::serialize(jobs.at("items").at(0).at("id"))}).out;
  };
  EXPECT_TRUE(has(pipe_of({}), (folder() / "run/mps").string()));
  EXPECT_EQ(pipe_of({"--mode", "timeslice"}), "in turns\n");
  EXPECT_NE(divvy({"submit", "--gpu", "2", "--mode", "mps", "--", "true"}).status, 0);
}

TEST_F(MpsRun, AHeldSliceTellsContainersOfTheDaemonAndOfTheirPartOfTheThreads) {
  start_daemon();
  const Outcome made =
      divvy({"slice", "create", "web", "--mode", "mps", "--gpu", "0.3", "--device", "0"});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::vector<pid_t> daemons = control_daemons();
  ASSERT_EQ(daemons.size(), 1U);
  EXPECT_EQ(ask("GET", "/v1/tenants/web").body.at("mode").as_string(), "mps");
  const std::string device = cdi_file("web");
  EXPECT_TRUE(has(device, "CUDA_MPS_PIPE_DIRECTORY=/run/divvy/mps\"")) << device;
  EXPECT_TRUE(has(device, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\"")) << device;
  EXPECT_TRUE(has(device, "\"hostPath\": \"" + (folder() / "run/mps").string())) << device;

  // A container that starts later has the share of then.
  EXPECT_EQ(divvy({"set", "web", "--gpu", "0.5"}).status, 0);
  EXPECT_TRUE(has(cdi_file("web"), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\""));
  stop_daemon(SIGKILL);
  fs::remove(folder() / "run/cdi/divvy.dev-slice_web.json");
  start_daemon();
  EXPECT_TRUE(has(cdi_file("web"), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50\""));
  EXPECT_EQ(control_daemons(), daemons);
  // Whoever used it before the restart has five seconds to come back.
  EXPECT_TRUE(eventually([&] { return divvy({"slice", "delete", "web"}).status == 0; }));
  EXPECT_TRUE(eventually([&] { return control_daemons().empty(); }));
}

TEST_F(MpsRun, AHeldSliceIsInTheModeThatTheMachineIsSetTo) {
  std::ofstream(folder() / "divvyd.yaml") << "sharing:\n  mode: mps\n";
  start_daemon({"--config", (folder() / "divvyd.yaml").string()});
  ASSERT_EQ(divvy({"slice", "create", "web", "--gpu", "0.3"}).status, 0);
  EXPECT_TRUE(has(cdi_file("web"), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\""));
  ASSERT_EQ(divvy({"slice", "create", "turns", "--gpu", "0.3", "--mode", "timeslice"}).status, 0);
  EXPECT_FALSE(has(cdi_file("turns"), "CUDA_MPS"));
  // A program can reach only one MPS daemon.
  ASSERT_EQ(divvy({"slice", "delete", "web"}).status, 0);
  ASSERT_EQ(divvy({"slice", "delete", "turns"}).status, 0);
  const Outcome two = divvy({"slice", "create", "two", "--gpu", "2", "--mode", "mps"});
  EXPECT_EQ(two.status, 2);
  EXPECT_TRUE(has(two.err, "mode mps takes one GPU")) << two.err;
}

TEST_F(MpsRun, AJobIsRefusedAtSubmitWhereMpsIsNotInstalled) {
  environment_[0] = "PATH=/usr/bin:/bin";
  start_daemon();
  const Outcome refused = divvy({"submit", "--gpu", "0.5", "--mode", "mps", "--", "/bin/true"});
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(has(refused.err, "needs nvidia-cuda-mps-control")) << refused.err;
  EXPECT_TRUE(has(refused.err, "--mode timeslice")) << refused.err;
  EXPECT_EQ(ask("GET", "/v1/jobs").body.at("items").as_array().size(), 0U);
}

TEST_F(MpsRun, SaysThatMpsIsNotInstalledAndKeepsNothing) {
  environment_[0] = "PATH=/usr/bin:/bin";
  start_daemon();
  const Outcome outcome = divvy({"run", "--mode", "mps", "--gpu", "2", "--", "/bin/true"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(has(outcome.err, "mode mps takes one GPU")) << outcome.err;
  const Outcome missing = divvy({"run", "--mode", "mps", "--gpu", "0.5", "--", "/bin/true"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(has(missing.err, "needs nvidia-cuda-mps-control")) << missing.err;
  // The place that was kept meanwhile is free again, for every mode.
  EXPECT_EQ(divvy({"run", "--gpu", "2", "--", "/bin/true"}).status, 0);
}

}  // namespace
}  // namespace divvy::testing
