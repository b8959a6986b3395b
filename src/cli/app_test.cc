#include "cli/app.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/testing.h"

namespace divvy::cli {
namespace {

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

Outcome divvy(
    const std::vector<std::string>& arguments,
    const Inventory& inventory = [] { return test_node(test_parts(2)); }) {
  Terminal terminal;
  terminal.environment = [](const char*) { return std::nullopt; };
  std::ostringstream out;
  std::ostringstream err;
  const int status =
      run(arguments, {.version = "1.2.3", .inventory = inventory}, terminal, out, err);
  return {status, out.str(), err.str()};
}

Result<model::Node> no_driver() {
  return err(ErrorCode::kNotFound, "NVML could not be loaded: libnvidia-ml.so.1: no such file");
}

bool has(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

TEST(App, ListsGpus) {
  const Outcome outcome = divvy({"gpus"});
  EXPECT_EQ(outcome.status, kExitOk);
  EXPECT_TRUE(has(outcome.out, "NVIDIA H200")) << outcome.out;
  EXPECT_EQ(outcome.err, "");
}

TEST(App, ListsGpusInEveryFormat) {
  EXPECT_TRUE(has(divvy({"gpus", "-o", "wide"}).out, "UUID"));
  EXPECT_TRUE(has(divvy({"gpus", "-o", "json"}).out, "\"kind\": \"GpuList\""));
  EXPECT_TRUE(has(divvy({"gpus", "--output=yaml"}).out, "kind: GpuList\n"));
  EXPECT_EQ(divvy({"gpus", "-oname"}).out,
            "GPU-00000000-0000-4000-8000-000000000000\n"
            "GPU-00000000-0000-4000-8000-000000000001\n");
  EXPECT_TRUE(has(divvy({"gpus", "--topology"}).out, "CPU AFFINITY"));
  EXPECT_TRUE(has(divvy({"gpus", "--topology", "-o", "json"}).out, "\"kind\": \"GpuTopology\""));
}

TEST(App, SaysWhatToDoWithoutADriver) {
  const Outcome outcome = divvy({"gpus"}, no_driver);
  EXPECT_EQ(outcome.status, kExitError);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "divvy: there is no GPU driver on this machine.\n"
            "  NVML could not be loaded: libnvidia-ml.so.1: no such file\n"
            "Install the NVIDIA driver (nvidia-smi then works too), or look at simulated GPUs:\n"
            "  DIVVY_SIM_GPUS=4 divvy gpus\n");
}

TEST(App, GivesNoAdviceAboutDriversForOtherErrors) {
  const Outcome outcome =
      divvy({"gpus"}, []() -> Result<model::Node> { return err(ErrorCode::kTimeout, "Timeout"); });
  EXPECT_EQ(outcome.status, kExitError);
  EXPECT_EQ(outcome.err, "divvy: Timeout\n");
}

TEST(App, PaintsWhenToldTo) {
  EXPECT_FALSE(has(divvy({"gpus"}).out, "\x1b["));
  EXPECT_TRUE(has(divvy({"--color", "always", "gpus"}).out, "\x1b["));
  EXPECT_TRUE(has(divvy({"gpus", "--color=always"}).out, "\x1b["));
}

TEST(App, PrintsItsVersion) {
  EXPECT_EQ(divvy({"version"}).out, "divvy 1.2.3\n");
  EXPECT_EQ(divvy({"--version"}).out, "divvy 1.2.3\n");
  EXPECT_TRUE(has(divvy({"version", "-o", "json"}).out, "\"version\": \"1.2.3\""));
}

TEST(App, PrintsHelp) {
  for (const auto& arguments :
       {std::vector<std::string>{}, std::vector<std::string>{"--help"}, {"-h"}}) {
    const Outcome outcome = divvy(arguments);
    EXPECT_EQ(outcome.status, kExitOk);
    EXPECT_TRUE(has(outcome.out, "Usage: divvy [options] [COMMAND]")) << outcome.out;
    EXPECT_TRUE(has(outcome.out, "Exit status:\n  0  it worked\n"));
  }
  const Outcome outcome = divvy({"gpus", "--help"});
  EXPECT_TRUE(has(outcome.out, "Usage: divvy gpus [options]")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "--topology"));
}

TEST(App, SuggestsTheCommandThatWasMeant) {
  const Outcome outcome = divvy({"gpsu"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "divvy: there is no command \"gpsu\"; did you mean gpus?\nTry `divvy --help`.\n");
}

TEST(App, KnowsWhatOtherProgramsCallItsCommands) {
  const std::pair<const char*, const char*> habits[] = {
      {"cancel", "divvy delete"},   {"kill", "divvy delete"},   {"stop", "divvy delete"},
      {"squeue", "divvy list"},     {"sbatch", "divvy submit"}, {"srun", "divvy run"},
      {"nvidia-smi", "divvy gpus"}, {"sinfo", "divvy nodes"},   {"sacct", "divvy list --all"},
      {"qsub", "divvy submit"},     {"status", "divvy get"},    {"jobs", "divvy list"},
      {"rm", "divvy delete"}};
  for (const auto& [typed, meant] : habits) {
    const Outcome outcome = divvy({typed, "17"});
    EXPECT_EQ(outcome.status, kExitUsage) << typed;
    EXPECT_TRUE(has(outcome.err, meant)) << outcome.err;
  }
}

TEST(App, HelpOfACommandMayBeAskedForInBothWays) {
  EXPECT_EQ(divvy({"help", "submit"}).out, divvy({"submit", "--help"}).out);
  EXPECT_EQ(divvy({"help"}).out, divvy({"--help"}).out);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"nosuch", "--help"},
                                                {"help", "nosuch"},
                                                {"queue", "nosuch", "--help"},
                                                {"help", "queue", "nosuch"}}) {
    const Outcome outcome = divvy(words);
    EXPECT_EQ(outcome.status, kExitUsage);
    EXPECT_TRUE(has(outcome.err, "there is no command \"nosuch\"")) << outcome.err;
  }
}

TEST(App, ListsTheCommandsWhenNoneIsClose) {
  EXPECT_TRUE(has(
      divvy({"frobnicate"}).err,
      "commands are submit, serve, list, get, describe, explain, logs, wait, templates, sweep, "
      "schedule, "
      "suspend, resume, requeue, update, delete, prune, exec, attach, port-forward, cp, session, "
      "ssh, ssh-config, ssh-proxy, run, set, ps, top, slice, gpus, gpu, nodes, events, "
      "doctor, ledger, cdi, queue, quota, usage, user, token, whoami, secret, login, logout, "
      "audit, "
      "backup, restore, "
      "context, config, sim, bench, completion, man, version"));
}

TEST(App, SuggestsTheOptionThatWasMeant) {
  const Outcome outcome = divvy({"gpus", "--topolgy"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_EQ(outcome.err,
            "divvy: `divvy gpus` has no option --topolgy; did you mean --topology?\n"
            "Try `divvy gpus --help`.\n");
  EXPECT_TRUE(has(divvy({"gpus", "--colour=never"}).err, "did you mean --color?"));
}

TEST(App, RefusesOptionsOfTheCommandAbove) {
  const Outcome outcome = divvy({"serve", "delete", "model", "--replicas", "3"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_TRUE(has(outcome.err, "divvy serve delete does not take --replicas")) << outcome.err;
}

TEST(App, RefusesWhatItDoesNotUnderstand) {
  const std::vector<std::string> wrong[] = {
      {"gpus", "0"},       {"gpus", "-o", "xml"},
      {"gpus", "-o"},      {"gpus", "--topology", "-o", "name"},
      {"--color", "pink"}, {"version", "-o", "wide"},
  };
  for (const auto& arguments : wrong) {
    const Outcome outcome = divvy(arguments);
    EXPECT_EQ(outcome.status, kExitUsage) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(has(outcome.err, "--help`")) << outcome.err;
  }
  EXPECT_TRUE(has(divvy({"gpus", "-o"}).err, "--output needs a value"))
      << divvy({"gpus", "-o"}).err;
}

TEST(App, NamesTheOptionWhoseValueIsNoNumber) {
  EXPECT_EQ(divvy({"submit", "--members", "x\x1b", "--", "a"}).err,
            "divvy: --members: \"x\\x1b\" is no number that it takes; write a whole one, like 4\n"
            "Try `divvy submit --help`.\n");
  EXPECT_TRUE(has(divvy({"logs", "17", "--rank", "-1"}).err, "--rank: \"-1\" is no number"));
}

TEST(App, TakesTimesWithTheirUnitInEveryCommand) {
  EXPECT_TRUE(has(divvy({"run", "--timeout", "5m", "--", "a"}).err, "--timeout needs --wait"));
  EXPECT_TRUE(has(divvy({"run", "--wait", "--timeout", "5x", "--", "a"}).err, "write it like 90s"));
}

// What a variable that is not set leaves of "$JOB": it names nothing, and not everything either.
TEST(App, RefusesAnEmptyArgument) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"delete", ""},
                                                {"get", ""},
                                                {"wait", "17", ""},
                                                {"sweep", ""},
                                                {"session", "stop", ""},
                                                {"slice", "delete", ""}}) {
    const Outcome outcome = divvy(words);
    EXPECT_EQ(outcome.status, kExitUsage) << words.front();
    EXPECT_TRUE(has(outcome.err, " is empty; ")) << outcome.err;
  }
}

TEST(App, MakesTypedTextSafe) {
  EXPECT_FALSE(has(divvy({"\x1b[2J"}).err, "\x1b"));
  EXPECT_FALSE(has(divvy({"gpus", "--\x1b[2J"}).err, "\x1b"));
}

TEST(App, SaysThatItsOutputCouldNotBeWritten) {
  Terminal terminal;
  terminal.environment = [](const char*) { return std::nullopt; };
  std::ostringstream full;
  full.setstate(std::ios::badbit);
  std::ostringstream err;
  const Services services{.version = "1", .inventory = [] { return test_node(test_parts(1)); }};
  EXPECT_EQ(run({"gpus"}, services, terminal, full, err), kExitError);
  EXPECT_TRUE(has(err.str(), "could not be written"));
}

}  // namespace
}  // namespace divvy::cli
