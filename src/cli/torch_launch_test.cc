#include "cli/torch_launch.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>

#include "base/temporary_folder.h"

namespace divvy::cli {
namespace {

std::string processes_of(const TorchLaunch& launch) {
  const auto command = torch_command(launch);
  return command ? command->at(4) : command.error().message;
}

TEST(TorchLaunch, HasAProcessForEachGpuOfAMember) {
  EXPECT_EQ(processes_of({.words = {"a.py"}, .gpu = {}, .processes = {}}), "1");
  EXPECT_EQ(processes_of({.words = {"a.py"}, .gpu = "0.3", .processes = {}}), "1");
  EXPECT_EQ(processes_of({.words = {"a.py"}, .gpu = "4", .processes = {}}), "4");
  EXPECT_EQ(processes_of({.words = {"a.py"}, .gpu = "2.5", .processes = {}}), "3");
  EXPECT_EQ(processes_of({.words = {"a.py"}, .gpu = "0", .processes = {}}), "1");
  EXPECT_EQ(processes_of({.words = {"a.py"}, .gpu = "4", .processes = 2}), "2");
  EXPECT_FALSE(torch_command({.words = {"a.py"}, .gpu = "much", .processes = {}}));
  EXPECT_FALSE(torch_command({.words = {"a.py"}, .gpu = {}, .processes = 0}));
  EXPECT_FALSE(torch_command({.words = {}, .gpu = {}, .processes = {}}));
}

TEST(TorchLaunch, IsNamedAfterItsScript) {
  EXPECT_EQ(script_name({"--max-restarts", "3", "src/train.py", "--x", "y.py"}), "train");
  EXPECT_EQ(script_name({"-m", "package.train"}), "");
  EXPECT_EQ(script_name({".py"}), "");
}

// With a torchrun that says how it was called.
TEST(TorchLaunch, MeetsAtRankZeroWithTheScriptsOwnWords) {
  TemporaryFolder folder;
  std::ofstream(folder / "torchrun") << "#!/bin/sh\necho \"rank=${RANK-none}\"\n"
                                        "for word in \"$@\"; do echo \"$word\"; done\n";
  ::chmod((folder / "torchrun").c_str(), 0755);
  const auto command =
      torch_command({.words = {"train.py", "--name", "a b"}, .gpu = "2", .processes = {}});
  ASSERT_TRUE(command.has_value());
  const auto run = [&](const std::string& variables) {
    std::string line = "PATH=" + folder.string() + ":$PATH " + variables + " exec";
    for (const std::string& word : *command) {
      std::string quoted = "'";
      for (const char letter : word) {
        quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
      }
      line += " " + quoted + "'";
    }
    line += " >" + (folder / "out").string();
    std::ofstream(folder / "line.sh") << line << "\n";
    EXPECT_EQ(WEXITSTATUS(::system(("sh " + (folder / "line.sh").string()).c_str())), 0);
    std::ifstream stream(folder / "out");
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::string rest = "--rdzv-id=17.2\ntrain.py\n--name\na b\n";
  EXPECT_EQ(run("DIVVY_JOB_ID=17 DIVVY_ATTEMPT=2 DIVVY_MEMBERS=4 MASTER_ADDR=node-a "
                "MASTER_PORT=20001 RANK=3 WORLD_SIZE=4 DIVVY_PORT=20004"),
            "rank=none\n--nnodes=4\n--nproc-per-node=2\n--rdzv-backend=c10d\n"
            "--rdzv-endpoint=node-a:20001\n" +
                rest);
  EXPECT_EQ(run("DIVVY_JOB_ID=17 DIVVY_ATTEMPT=2 DIVVY_MEMBERS=1 DIVVY_PORT=20004"),
            "rank=none\n--nnodes=1\n--nproc-per-node=2\n--rdzv-backend=c10d\n"
            "--rdzv-endpoint=127.0.0.1:20004\n" +
                rest);
}

}  // namespace
}  // namespace divvy::cli
