// `divvy gpus` as a user meets it: the program itself, on simulated GPUs and on a machine without
// any.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

// Every test has its own simulated machine, which goes away with it.
class Gpus : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "divvy-gpus-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Runs a program in an environment that has only what is given here.
  Outcome run(const std::string& command, const std::string& environment) const {
    const std::string line = "env -i " + environment + " " + command + " >'" +
                             (folder_ / "out").string() + "' 2>'" + (folder_ / "err").string() +
                             "' </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(folder_ / "out"),
            read(folder_ / "err")};
  }

  Outcome divvy(const std::string& arguments, const std::string& environment) const {
    return run("'" DIVVY_PROGRAM "' " + arguments, environment);
  }

  std::string simulation(const std::string& gpus) const {
    return "DIVVY_SIM_GPUS=" + gpus + " DIVVY_SIM_STATE='" + (folder_ / "state").string() +
           "' DIVVY_RUN_DIR='" + (folder_ / "run").string() + "'";
  }

  Outcome simulated(const std::string& arguments, const std::string& gpus = "4xH200",
                    const std::string& locale = "LC_ALL=C.UTF-8") const {
    return divvy(arguments, locale + " " + simulation(gpus));
  }

  void trouble(const std::string& fault) const {
    const Outcome outcome = run("'" DIVVY_SIMGPU_PROGRAM "' fault " + fault, simulation("4xH200"));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }

  fs::path folder_;
};

int count(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), expression),
                                        std::sregex_iterator()));
}

TEST_F(Gpus, SaysWhatToDoOnAMachineWithoutADriver) {
  // A loader path that is empty on every machine would still find an installed driver.
  if (fs::exists("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1") || fs::exists("/dev/nvidiactl")) {
    GTEST_SKIP() << "this machine has an NVIDIA driver";
  }
  const Outcome outcome = divvy("gpus", "");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("there is no GPU driver on this machine"), std::string::npos);
  EXPECT_NE(outcome.err.find("Install the NVIDIA driver"), std::string::npos);
  EXPECT_NE(outcome.err.find("DIVVY_SIM_GPUS=4 divvy gpus"), std::string::npos);
}

TEST_F(Gpus, ListsFourSimulatedGpus) {
  const Outcome outcome = simulated("gpus");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(count(outcome.out, "NVIDIA H200 .* GiB .* % .* °C .* W .*healthy"), 4) << outcome.out;
  EXPECT_NE(outcome.out.find("4 GPUs (simulated), driver "), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
}

TEST_F(Gpus, PrintsPlainAsciiInAPlainLocale) {
  for (const char* arguments : {"gpus", "gpus -o wide", "gpus --topology"}) {
    const Outcome outcome = simulated(arguments, "2", "LC_ALL=C");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const char c : outcome.out) EXPECT_GE(c, 0) << outcome.out;
  }
}

TEST_F(Gpus, KnowsWhatEveryGpuIsInTheWideForm) {
  const Outcome outcome = simulated("gpus -o wide");
  EXPECT_EQ(count(outcome.out, "GPU-[0-9a-f-]{36} +[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\\.0 +[0-9]"),
            4)
      << outcome.out;
  EXPECT_NE(outcome.out.find("1-3 (NV18)"), std::string::npos) << outcome.out;
}

TEST_F(Gpus, GivesProgramsEveryValue) {
  const Outcome json = simulated("gpus -o json");
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_NE(json.out.find("\"apiVersion\": \"divvy/v1\""), std::string::npos);
  EXPECT_NE(json.out.find("\"simulated\": true"), std::string::npos);
  for (const char* field :
       {"uuid", "model", "totalBytes", "usedBytes", "utilizationPercent", "temperatureCelsius",
        "powerMilliwatts", "driverVersion", "pciAddress", "numaNode"}) {
    EXPECT_EQ(count(json.out, "\"" + std::string(field) + "\": null"), 0) << field << json.out;
  }
  EXPECT_EQ(count(json.out, "\"problems\": \\[\\]"), 4) << json.out;
  const Outcome yaml = simulated("gpus -o yaml");
  EXPECT_EQ(count(yaml.out, "model: NVIDIA H200\n"), 4) << yaml.out;
}

TEST_F(Gpus, KeepsTheirNames) {
  const Outcome first = simulated("gpus -o name");
  EXPECT_EQ(count(first.out, "GPU-[0-9a-f-]{36}\n"), 4) << first.out;
  EXPECT_EQ(simulated("gpus -o name").out, first.out);
}

TEST_F(Gpus, ShowsHowTheyAreConnected) {
  const Outcome outcome = simulated("gpus --topology");
  EXPECT_EQ(count(outcome.out, "NV18"), 12) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\nGPU[0-3] "), 4) << outcome.out;
}

TEST_F(Gpus, ListsGpusInTroubleWithWhatIsKnown) {
  trouble("1 lost");
  trouble("2 deny temperature not-supported");
  trouble("3 hot 99");
  const Outcome outcome = simulated("gpus");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "\n0 .* healthy\n"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\n1 .* quarantined\n"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\n2 .* GiB .* – .* healthy\n"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\n3 .* 99 °C .* suspect\n"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\nGPU 1: quarantined: GPU is lost"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\nGPU 2: temperature: Not Supported\n"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "\nGPU 3: suspect: too hot"), 1) << outcome.out;
}

TEST_F(Gpus, RefusesASimulationThatMakesNoSense) {
  const Outcome outcome = simulated("gpus", "4xNOSUCH");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("the simulated GPUs could not be started"), std::string::npos);
  EXPECT_EQ(outcome.err.find("Install the NVIDIA driver"), std::string::npos);
}

TEST_F(Gpus, ExitsWithTwoForAWrongCommandLine) {
  const Outcome outcome = divvy("gpsu", "");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("did you mean gpus?"), std::string::npos);
}

}  // namespace
