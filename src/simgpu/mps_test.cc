#include "simgpu/mps.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace divvy::simgpu {
namespace {

class MpsTest : public ::testing::Test {
 protected:
  MpsTest() {
    char name[] = "/tmp/simgpu-mps-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    setenv("CUDA_MPS_PIPE_DIRECTORY", name, 1);
    unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  }
  ~MpsTest() override {
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    std::filesystem::remove_all(folder_);
  }

  // The exit status of the program with this option and standard input.
  static int control(const std::string& option, const std::string& lines = "") {
    const std::string command = std::string(SIMGPU_MPS_CONTROL) + " " + option + " >/dev/null 2>&1";
    FILE* program = popen(command.c_str(), "w");
    if (program == nullptr) return -1;
    fputs(lines.c_str(), program);
    return WEXITSTATUS(pclose(program));
  }

  std::string folder_;
};

TEST_F(MpsTest, AProcessIsAClientOnlyWhileADaemonListens) {
  EXPECT_EQ(mps_client_threads(), std::nullopt);
  EXPECT_NE(control("", "get_server_list\n"), 0);
  ASSERT_EQ(control("-d"), 0);
  EXPECT_EQ(mps_client_threads(), 100U);
  EXPECT_EQ(control("", "get_server_list\n"), 0);
  EXPECT_NE(control("-d"), 0) << "one daemon for a folder";
  EXPECT_EQ(control("", "quit -t 5\n"), 0);
  EXPECT_EQ(mps_client_threads(), std::nullopt);
}

TEST_F(MpsTest, ThePartOfTheGpuComesFromTheEnvironment) {
  ASSERT_EQ(control("-d"), 0);
  const auto with = [](const char* text) {
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", text, 1);
    return mps_client_threads();
  };
  EXPECT_EQ(with("30"), 30U);
  EXPECT_EQ(with("12.6"), 13U);
  EXPECT_EQ(with("0.2"), 1U);
  EXPECT_EQ(with("250"), 100U);
  EXPECT_EQ(with("nonsense"), 100U);
  EXPECT_EQ(control("", "quit\n"), 0);
}

TEST_F(MpsTest, AFolderTooDeepForASocketHasNoDaemon) {
  EXPECT_EQ(mps_control_address(std::string(200, 'x')), std::nullopt);
  EXPECT_EQ(connect_to_mps(std::string(200, 'x')), -1);
}

}  // namespace
}  // namespace divvy::simgpu
