#include "cli/sim_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/temporary_folder.h"
#include "cli/app.h"
#include "cli/testing.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

bool has(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

class Sim : public testing::Test {
 protected:
  Sim() {
    // Two nodes; of the four arrivals the last one finds no place.
    nodes_ = file("nodes.csv",
                  "sn,cpu_milli,memory_mib,gpu,model\n"
                  "node-a,32000,65536,2,T4\n"
                  "node-b,32000,65536,2,T4\n");
    pods_ = file("pods.csv",
                 "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
                 "pod-0000,1000,1024,1,500,\n"
                 "pod-0001,1000,1024,2,1000,T4|P100\n");
    sequence_ = file("order.txt", "0\n0\n1\n1\n");
  }

  std::string file(const std::string& name, std::string_view text) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  static Outcome divvy(const std::vector<std::string>& arguments, bool terminal_errors = false) {
    Terminal terminal;
    terminal.environment = [](const char*) { return std::nullopt; };
    terminal.errors_are_terminal = terminal_errors;
    std::ostringstream out;
    std::ostringstream err;
    const Inventory inventory = [] { return test_node(test_parts(1)); };
    const int status =
        run(arguments, {.version = "1.2.3", .inventory = inventory}, terminal, out, err);
    return {status, out.str(), err.str()};
  }

  Outcome pack(const std::vector<std::string>& more, bool terminal_errors = false) const {
    std::vector<std::string> words{"sim",    "pack", "--nodes",    nodes_,
                                   "--pods", pods_,  "--sequence", sequence_};
    words.insert(words.end(), more.begin(), more.end());
    return divvy(words, terminal_errors);
  }

  TemporaryFolder folder_;
  std::string nodes_;
  std::string pods_;
  std::string sequence_;
};

TEST_F(Sim, PackPrintsEveryLevel) {
  const Outcome outcome = pack({"--policy", "bestfit"});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(has(outcome.out, "ARRIVED  ALLOCATED  UNALLOCATED  FRAGMENTED  OF FREE\n"))
      << outcome.out;
  // Half a GPU of four, another half on the same one, two whole ones, and two that do not fit.
  EXPECT_TRUE(has(outcome.out, "   13 %      12.50        87.50"));
  EXPECT_TRUE(has(outcome.out, "   25 %      25.00        75.00"));
  EXPECT_TRUE(has(outcome.out, "   75 %      75.00        25.00"));
  EXPECT_TRUE(has(outcome.out, "  125 %      75.00        25.00"));
  EXPECT_TRUE(has(outcome.out,
                  "bestfit: 75.00 % of the GPUs allocated at the end; 1 of 4 pods found no place"));
}

TEST_F(Sim, PackWritesJsonForPrograms) {
  const Outcome outcome = pack({"--policy", "fgd", "--sequence", sequence_, "-o", "json"});
  ASSERT_EQ(outcome.status, kExitOk) << outcome.err;
  const json::value document = json::parse(outcome.out);
  EXPECT_EQ(document.at("policy").as_string(), "fgd");
  const json::array& runs = document.at("runs").as_array();
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].at("sequence").as_string(), sequence_);
  EXPECT_EQ(runs[0].at("failed").as_int64(), 1);
  EXPECT_DOUBLE_EQ(runs[1].at("alloc").at("125").as_double(), 75);
  EXPECT_TRUE(runs[1].at("frag").as_object().contains("75"));
  EXPECT_TRUE(runs[1].at("frag_ratio").as_object().contains("75"));
  EXPECT_DOUBLE_EQ(document.at("mean").at("alloc").at("25").as_double(), 25);
}

TEST_F(Sim, PackComparesPoliciesSideBySide) {
  const Outcome outcome =
      pack({"--policy", "fgd,spread", "--policy", "bestfit=2,spread=1", "--levels", "75-200"});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "ARRIVED    fgd  spread  bestfit=2,spread=1\n")) << outcome.out;
  EXPECT_FALSE(has(outcome.out, "   25 %"));
  EXPECT_TRUE(has(outcome.out, "  125 %  75.00"));
  const json::value document = json::parse(pack({"--policy", "fgd,spread", "-o", "json"}).out);
  EXPECT_EQ(document.at("policies").as_array().size(), 2U);
}

TEST_F(Sim, PackGivesTheSameForTheSameSeed) {
  const std::vector<std::string> words{"--policy", "random", "--seed", "7", "-o", "json"};
  EXPECT_EQ(pack(words).out, pack(words).out);
}

TEST_F(Sim, PackDrawsPictures) {
  const std::string svg = (folder_ / "curves.svg").string();
  EXPECT_EQ(pack({"--policy", "fgd,spread", "--plot", svg}).status, kExitOk);
  std::ifstream file(svg);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(has(text, ">spread</text>"));

  const Outcome nowhere = pack({"--plot", "/nowhere/curves.svg"});
  EXPECT_EQ(nowhere.status, kExitError);
  EXPECT_TRUE(has(nowhere.err, "/nowhere/curves.svg could not be written")) << nowhere.err;
  const Outcome unknown = pack({"--plot", "curves.png"});
  EXPECT_EQ(unknown.status, kExitUsage);
  EXPECT_TRUE(has(unknown.err, "curves.png: pictures are written as SVG")) << unknown.err;
}

TEST_F(Sim, PackShowsProgressOnATerminalOnly) {
  const Outcome shown = pack({"--policy", "fgd"}, true);
  EXPECT_TRUE(has(shown.err, "fgd, sequence 1 of 1")) << shown.err;
  EXPECT_TRUE(shown.err.ends_with("\r\x1b[K"));
  EXPECT_EQ(pack({"--policy", "fgd"}).err, "");
}

TEST_F(Sim, PackRefusesWrongOptions) {
  const Outcome policy = pack({"--policy", "fdg"});
  EXPECT_EQ(policy.status, kExitUsage);
  EXPECT_TRUE(has(policy.err, "there is no policy \"fdg\"; did you mean fgd?")) << policy.err;
  EXPECT_TRUE(has(policy.err, "Try `divvy sim pack --help`."));
  EXPECT_EQ(pack({"-o", "xml"}).status, kExitUsage);
  EXPECT_EQ(pack({"--levels", "10-x"}).status, kExitUsage);
  EXPECT_EQ(pack({"--policy", ""}).status, kExitUsage);
  EXPECT_EQ(pack({"--seed", "-1"}).status, kExitUsage);
  const Outcome missing = divvy({"sim", "pack", "--nodes", nodes_});
  EXPECT_EQ(missing.status, kExitUsage);
  EXPECT_TRUE(has(missing.err, "is missing")) << missing.err;
  const Outcome option = pack({"--polcy", "fgd"});
  EXPECT_TRUE(has(option.err, "`divvy sim pack` has no option --polcy; did you mean --policy?"))
      << option.err;
}

TEST_F(Sim, PackNamesFileAndLineOfWhatIsWrong) {
  const std::string order = file("wrong.txt", "0\n1\n17\n");
  const Outcome outcome = pack({"--sequence", order});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, order + ":3: there is no pod \"17\"")) << outcome.err;

  const std::string nodes = file("wrong.csv", "sn,cpu_milli,gpu,model\n");
  const Outcome column =
      divvy({"sim", "pack", "--nodes", nodes, "--pods", pods_, "--sequence", sequence_});
  EXPECT_EQ(column.status, kExitUsage);
  EXPECT_TRUE(has(column.err, "memory_mib")) << column.err;
  EXPECT_EQ(pack({"--sequence", "/nowhere/order.txt"}).status, kExitUsage);
}

TEST_F(Sim, JobsPrintsTimes) {
  const std::string trace = file("jobs.csv",
                                 "num_gpu,submit_time,iterations,model_name,iteration_time\n"
                                 "1,0,100,bert,1000\n"
                                 "2,5000,100,gpt2,1000\n");
  const Outcome table = divvy({"sim", "jobs", "--trace", trace, "--policy", "fifo,srtf"});
  EXPECT_EQ(table.status, kExitOk) << table.err;
  EXPECT_TRUE(has(table.out, "srtf")) << table.out;
  const Outcome outcome =
      divvy({"sim", "jobs", "--trace", trace, "--policy", "srtf", "-o", "json"});
  ASSERT_EQ(outcome.status, kExitOk) << outcome.err;
  const json::value document = json::parse(outcome.out);
  EXPECT_EQ(document.at("policy").as_string(), "srtf");
  EXPECT_EQ(document.at("jobs").as_int64(), 2);
  EXPECT_GT(document.at("avg_jct_s").to_number<double>(), 100);
}

TEST_F(Sim, JobsRefusesWhatIsWrong) {
  EXPECT_EQ(divvy({"sim", "jobs", "--trace", "/nowhere/jobs.csv"}).status, kExitUsage);
  const std::string trace = file("jobs.csv", "num_gpu,submit_time\n1,0\n");
  EXPECT_EQ(divvy({"sim", "jobs", "--trace", trace}).status, kExitUsage);
  EXPECT_EQ(divvy({"sim", "jobs", "--trace", trace, "--policy", "nobody"}).status, kExitUsage);
  EXPECT_EQ(divvy({"sim", "jobs", "--trace", trace, "--nodes", "0"}).status, kExitUsage);
  EXPECT_EQ(divvy({"sim", "jobs", "--trace", trace, "--nodes", "-1"}).status, kExitUsage);
  const Outcome sharing = divvy({"sim", "jobs", "--trace", trace, "--share", "resources"});
  EXPECT_EQ(sharing.status, kExitUsage);
  EXPECT_TRUE(has(sharing.err, "add --restart-cost real")) << sharing.err;
}

TEST_F(Sim, HelpTellsPoliciesAndExamples) {
  const Outcome sim = divvy({"sim"});
  EXPECT_EQ(sim.status, kExitOk);
  EXPECT_TRUE(has(sim.out, "Usage: divvy sim")) << sim.out;
  EXPECT_TRUE(has(sim.out, "pack"));
  const Outcome pack_help = divvy({"sim", "pack", "--help"});
  EXPECT_EQ(pack_help.status, kExitOk);
  EXPECT_TRUE(has(pack_help.out, "Usage: divvy sim pack")) << pack_help.out;
  EXPECT_TRUE(has(pack_help.out, "Examples:"));
  EXPECT_TRUE(has(pack_help.out, "fgd"));
  EXPECT_TRUE(has(divvy({"sim", "jobs", "--help"}).out, "srtf"));
  const Outcome unknown = divvy({"sim", "pakc"});
  EXPECT_EQ(unknown.status, kExitUsage);
  EXPECT_TRUE(has(unknown.err, "did you mean pack?")) << unknown.err;
}

TEST_F(Sim, ClusterPlaysAScenario) {
  const std::string path =
      file("a.scenario", "node a gpus=1\nsubmit j gpus=1 lasts=5\nexpect j on a gpu 0\n");
  const Outcome outcome = divvy({"sim", "cluster", path});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "starts     on a gpu 0")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "1 expectations, all met")) << outcome.out;
  const Outcome as_json = divvy({"sim", "cluster", path, "--policy", "fgd", "-o", "json"});
  EXPECT_EQ(as_json.status, kExitOk) << as_json.err;
  const json::value document = json::parse(as_json.out);
  EXPECT_EQ(document.at("policy").as_string(), "fgd");
  EXPECT_TRUE(document.at("passed").as_bool());
  EXPECT_EQ(document.at("jobs").at(0).at("ended_s").as_int64(), 5);
}

TEST_F(Sim, ClusterFailsWhereItIsNotAsExpected) {
  const std::string path = file("a.scenario", "node a gpus=1\nsubmit j gpus=1\nexpect j waits\n");
  const Outcome outcome = divvy({"sim", "cluster", path});
  EXPECT_EQ(outcome.status, kExitError);
  EXPECT_TRUE(has(outcome.out, path + ":3: expected j waits; j runs on a gpu 0")) << outcome.out;
}

TEST_F(Sim, ClusterRefusesWhatItCannotRead) {
  const std::string path = file("a.scenario", "node a gpus=1\nsubmit j gpu=1\n");
  const Outcome outcome = divvy({"sim", "cluster", path});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_EQ(outcome.err, "divvy: " + path + ":2: \"gpu\" is no option here; did you mean gpus?\n");
  const std::string fine = file("b.scenario", "node a\n");
  EXPECT_EQ(divvy({"sim", "cluster", fine, "--policy", "nonsense"}).status, kExitUsage);
  EXPECT_EQ(divvy({"sim", "cluster"}).status, kExitUsage);
}

}  // namespace
}  // namespace divvy::cli
