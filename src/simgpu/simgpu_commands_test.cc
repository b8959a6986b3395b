#include "simgpu/simgpu_commands.h"

#include <stdio.h>
#include <sys/wait.h>

#include <sstream>

#include "simgpu/fault.h"
#include "simgpu/state_fixture.h"

namespace divvy::simgpu {
namespace {

class CommandsTest : public StateFixture {
 protected:
  int fault(const std::string& gpu, const std::vector<std::string>& words) {
    out_.str("");
    err_.str("");
    return fault_command(state(), gpu, words, out_, err_);
  }

  // Runs the built program; what it printed is in `printed_`.
  int simgpu(const std::string& arguments) {
    printed_.clear();
    FILE* pipe = popen((std::string(SIMGPU_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    char part[256];
    while (fgets(part, sizeof(part), pipe) != nullptr) printed_ += part;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::ostringstream out_;
  std::ostringstream err_;
  std::string printed_;
};

TEST_F(CommandsTest, PutsEachKindOfFaultOnAGpu) {
  start("2");
  EXPECT_EQ(fault("1", {"xid", "31"}), kDone);
  EXPECT_EQ(gpu(1).xid_sequence.load(), 1U);
  EXPECT_EQ(fault("1", {"hot", "95"}), kDone);
  EXPECT_EQ(gpu(1).faults.temperature_c.load(), 95);
  EXPECT_EQ(fault("1", {"ecc-corrected", "3"}), kDone);
  EXPECT_EQ(gpu(1).faults.ecc_corrected.load(), 3U);
  EXPECT_EQ(fault("1", {"ecc"}), kDone);
  EXPECT_EQ(fault("1", {"remap", "2"}), kDone);
  EXPECT_EQ(gpu(1).faults.remapped_rows.load(), 2U);
  EXPECT_EQ(gpu(1).faults.remap_pending.load(), 1U);
  EXPECT_EQ(fault("0", {"remap-pending"}), kDone);
  EXPECT_EQ(gpu(0).faults.remap_pending.load(), 1U);
  EXPECT_EQ(fault("1", {"remap-failed"}), kDone);
  EXPECT_EQ(fault("1", {"deny", "power", "not-supported"}), kDone);
  EXPECT_EQ(gpu(1).faults.failing_with.load(), 3U);
  EXPECT_EQ(fault("1", {"hang"}), kDone);
  EXPECT_EQ(fault("1", {"unhang"}), kDone);
  EXPECT_EQ(fault(gpu(1).spec.uuid, {"lost"}), kDone);
  EXPECT_EQ(gpu(1).faults.lost.load(), 1U);
  EXPECT_EQ(fault("1", {"clear"}), kDone);
  EXPECT_EQ(out_.str(), "GPU 1: clear is done; its faults now: none\n");
  EXPECT_TRUE(describe_faults(gpu(1)).empty());
}

TEST_F(CommandsTest, SaysWhatIsWrongWithAFault) {
  start("1");
  EXPECT_EQ(fault("7", {"lost"}), kMisused);
  EXPECT_EQ(err_.str(),
            "simgpu: there is no GPU '7'; `simgpu list` shows the 1 that are simulated\n");
  EXPECT_EQ(fault("0", {"xdi", "3"}), kMisused);
  EXPECT_NE(err_.str().find("did you mean 'xid'?"), std::string::npos);
  EXPECT_EQ(fault("0", {"xid"}), kMisused);
  EXPECT_EQ(err_.str(), "simgpu: the fault 'xid' needs an XID from 1 to 9999\n");
  EXPECT_EQ(fault("0", {"lost", "now"}), kMisused);
  EXPECT_EQ(fault("0", {"deny", "mood"}), kMisused);
  EXPECT_EQ(fault("0", {"deny", "power", "perhaps"}), kMisused);
  EXPECT_EQ(fault("0", {}), kMisused);
}

TEST_F(CommandsTest, ListsGpusAndWhoIsOnThem) {
  start("2xH200");
  hold(1, uint64_t{2} << 30U);
  set_temperature(state(), 0, 99);
  EXPECT_EQ(list_command(state(), false, out_), kDone);
  EXPECT_NE(out_.str().find("NVIDIA H200"), std::string::npos);
  EXPECT_NE(out_.str().find("held at 99 C"), std::string::npos);
  EXPECT_NE(out_.str().find("2 GiB / 140.4 GiB"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find(std::to_string(getpid())), std::string::npos);
  out_.str("");
  EXPECT_EQ(list_command(state(), true, out_), kDone);
  EXPECT_NE(out_.str().find("\"memory_used_bytes\": 2147483648"), std::string::npos) << out_.str();
}

TEST_F(CommandsTest, MovesTheManualClockOnly) {
  start("1");
  EXPECT_EQ(advance_clock_command(state(), "5ms", out_, err_), kFailed);
  EXPECT_EQ(advance_clock_command(state(), "soon", out_, err_), kMisused);
  start_yaml("clock: manual\ngpus: [{model: L4}]\n");
  EXPECT_EQ(advance_clock_command(state(), "500ms", out_, err_), kDone);
  EXPECT_EQ(out_.str(), "manual clock, at 1.500000000 s\n");
}

TEST_F(CommandsTest, ResetRemovesTheState) {
  start("1");
  EXPECT_EQ(reset_command(process_environment(), out_, err_), kDone);
  EXPECT_NE(access(path().c_str(), F_OK), 0);
  EXPECT_EQ(reset_command(process_environment(), out_, err_), kDone);
}

TEST_F(CommandsTest, RunGivesTheCommandItsOwnGpusAndItsExitStatus) {
  unsetenv("DIVVY_SIM_STATE");
  EXPECT_EQ(simgpu("run --gpus 3xL4 -- sh -c 'echo $DIVVY_SIM_GPUS $DIVVY_SIM_STATE; test -e "
                   "$DIVVY_SIM_STATE && exit 7'"),
            7)
      << printed_;
  EXPECT_EQ(printed_.find("3xL4 /dev/shm/divvy-simgpu-"), 0U) << printed_;
  const std::string private_state = printed_.substr(5, printed_.find('\n') - 5);
  EXPECT_NE(access(private_state.c_str(), F_OK), 0) << private_state;
}

TEST_F(CommandsTest, RunPassesSignalsBothWays) {
  EXPECT_EQ(simgpu("run --gpus 1 -- sh -c 'kill -TERM $$'"), 128 + SIGTERM);
  EXPECT_EQ(simgpu("run --gpus 1 -- sh -c 'trap \"exit 9\" USR1; kill -USR1 $PPID; while :; do "
                   "sleep 0.01; done'"),
            9);
}

TEST_F(CommandsTest, RunReportsBeforeItStartsAnything) {
  EXPECT_EQ(simgpu("run --gpus 4xH20 -- echo started"), kFailed);
  EXPECT_EQ(printed_.find("started"), std::string::npos);
  EXPECT_NE(printed_.find("did you mean H200?"), std::string::npos) << printed_;
  EXPECT_EQ(simgpu("run --gpus 1 -- /nowhere/at-all"), 127);
  EXPECT_EQ(simgpu("run --gpus 1"), kMisused);
  EXPECT_EQ(simgpu("run --gpus 1 --config x.yaml -- true"), kMisused);
  EXPECT_EQ(simgpu("dance"), kMisused);
  EXPECT_EQ(simgpu("--help"), kDone);
}

TEST_F(CommandsTest, EnvPrintsLinesForAShell) {
  unsetenv("DIVVY_SIM_STATE");
  EXPECT_EQ(simgpu("env --gpus 2xT4 --state /tmp/a\\ b"), kDone);
  EXPECT_NE(printed_.find("export DIVVY_SIM_GPUS='2xT4'\n"), std::string::npos) << printed_;
  EXPECT_NE(printed_.find("export DIVVY_SIM_STATE='/tmp/a b'\n"), std::string::npos);
  EXPECT_NE(printed_.find("/lib/divvy/simgpu"), std::string::npos);
}

TEST_F(CommandsTest, OtherProcessesReachTheSameGpus) {
  start("2xH200");
  unsetenv("DIVVY_SIM_GPUS");
  EXPECT_EQ(simgpu("fault 1 lost"), kDone) << printed_;
  EXPECT_EQ(gpu(1).faults.lost.load(), 1U);
  EXPECT_EQ(simgpu("list -o json"), kDone);
  EXPECT_NE(printed_.find("\"faults\": [\"lost\"]"), std::string::npos) << printed_;
  EXPECT_EQ(simgpu("list --state /nowhere/state"), kFailed);
  EXPECT_EQ(simgpu("clock"), kDone);
}

}  // namespace
}  // namespace divvy::simgpu
