// Commands that are about one machine do not answer about another one.
#include "cli/on_this_machine.h"

#include <gtest/gtest.h>

#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace divvy::cli {
namespace {

TEST(OnThisMachine, CommandsAboutAMachineSaySoWhenADaemonOnTheNetworkIsChosen) {
  const std::vector<std::string> commands[] = {{"gpus"},           {"doctor"},
                                               {"ledger", "show"}, {"cdi", "show"},
                                               {"cdi", "clean"},   {"run", "--", "ls"}};
  for (const auto& command : commands) {
    std::vector<std::string> words{"--server", "https://gpu.example:7443"};
    words.insert(words.end(), command.begin(), command.end());
    const CliOutcome outcome = run_divvy(words, "/nowhere/api.sock");
    EXPECT_EQ(outcome.status, kExitUsage) << command.front();
    EXPECT_EQ(outcome.out, "") << command.front();
    EXPECT_NE(outcome.err.find("log in on gpu.example and run it there"), std::string::npos)
        << outcome.err;
  }
}

// Whose simulated GPUs are the daemon's alone sees them there.
TEST(OnThisMachine, WithoutADriverSimulatedGpusOfTheDaemonAreListed) {
  FakeDaemon daemon;
  daemon.on("GET /v1/gpus", R"({"items":[{"index":0,"uuid":"GPU-1","model":"NVIDIA H200",
      "state":"healthy","reason":null,"cordoned":false,"draining":false,"cordonReason":null,
      "tenants":[]}]})");
  const auto gpus = [&daemon] {
    Terminal terminal;
    terminal.environment = [](const char*) { return std::nullopt; };
    Services services{.version = "1", .inventory = []() -> Result<model::Node> {
                        return err(ErrorCode::kNotFound, "libnvidia-ml.so.1 was not found");
                      }};
    services.daemon.socket = daemon.socket();
    std::ostringstream out;
    std::ostringstream err;
    const int status = run({"gpus"}, services, terminal, out, err);
    return CliOutcome{status, out.str(), err.str()};
  };
  daemon.on("GET /v1/node", R"({"simulated":false})");
  EXPECT_EQ(gpus().status, kExitError);
  daemon.on("GET /v1/node", R"({"simulated":true})");
  const CliOutcome outcome = gpus();
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_NE(outcome.out.find("NVIDIA H200"), std::string::npos) << outcome.out;
}

TEST(OnThisMachine, NamesTheCommandThatWorksOverTheNetwork) {
  const CliOutcome outcome =
      run_divvy({"--server", "https://gpu.example:7443", "run", "--", "ls"}, "/nowhere/api.sock");
  EXPECT_NE(outcome.err.find("use `divvy submit`"), std::string::npos) << outcome.err;
}

TEST(OnThisMachine, AnotherSocketOfThisMachineIsAsked) {
  FakeDaemon daemon;
  daemon.on("GET /v1/tenants", R"({"waiting":0,"items":[]})");
  daemon.on("GET /v1/slices", R"({"items":[]})");
  daemon.on("GET /v1/gpus", R"({"items":[]})");
  daemon.on("GET /v1/events", R"({"items":[],"last":0})");
  const std::string server = "unix:" + daemon.socket().string();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"ps"}, {"slice", "list"}, {"gpu", "list"}, {"events"}}) {
    std::vector<std::string> words{"--server", server};
    words.insert(words.end(), command.begin(), command.end());
    EXPECT_EQ(run_divvy(words, "/nowhere/api.sock").status, kExitOk) << command.front();
  }
}

TEST(OnThisMachine, WhateverTheApiServesGoesOverTheNetwork) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"logs", "17"},
                                                  {"events", "--jobs"},
                                                  {"list"},
                                                  {"ps"},
                                                  {"top", "--once"},
                                                  {"events"},
                                                  {"gpu", "list"},
                                                  {"gpu", "cordon", "0"},
                                                  {"slice", "list"},
                                                  {"set", "1", "--gpu", "1"},
                                                  {"exec", "17", "--", "ls"},
                                                  {"attach", "17"},
                                                  {"cp", "17:/a", "."}}) {
    // Nobody listens there, but it was asked.
    std::vector<std::string> words{"--server", "http://127.0.0.1:1"};
    words.insert(words.end(), command.begin(), command.end());
    const CliOutcome outcome = run_divvy(words, "/nowhere/api.sock");
    EXPECT_EQ(outcome.status, kExitError) << outcome.err;
    EXPECT_NE(outcome.err.find("127.0.0.1:1"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace divvy::cli
