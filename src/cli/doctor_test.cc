#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "base/temporary_folder.h"
#include "cli/testing.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kNode = R"({"version":"1.2.3","simulated":false})";

// A machine on which everything is well, as files below a folder; each test then breaks one thing.
class Doctor : public ::testing::Test {
 protected:
  void SetUp() override {
    write("proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n");
    write("proc/modules", "nvidia_uvm 1 0 - Live\nnvidia 1 1 nvidia_uvm, Live\n");
    write("proc/net/tcp", "  sl  local_address rem_address   st\n");
    for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia0"}) {
      write(fs::path("dev") / name, "");
      fs::permissions(root_ / "dev" / name, fs::perms(0666));
    }
    write("run/nvidia-persistenced/socket", "");
    write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    write("sys/fs/cgroup/cgroup.procs", "");
    write("usr/bin/nvidia-cuda-mps-control", "");
    fs::permissions(root_ / "usr/bin/nvidia-cuda-mps-control", fs::perms(0755));
    write("lib/libdivvy.so", "");
    for (const char* name : {"etc/cdi", "var/run/cdi", "var/lib/divvy"}) {
      fs::create_directories(root_ / name);
      fs::permissions(root_ / name, fs::perms(0755));
    }
    input_.root = root_;
    input_.version = "1.2.3";
    input_.uid = ::geteuid();
    input_.run_folder = "/run/divvy";
    input_.state_folder = "/var/lib/divvy";
    input_.shim = root_ / "lib/libdivvy.so";
    input_.search_path = "/usr/local/bin:/usr/bin";
    input_.kernel = "6.1.0-28-amd64";
    input_.open_files = 1 << 20;
    input_.now = std::chrono::sys_days(std::chrono::year(2026) / 11 / 15);
    input_.inventory = [] { return test_node(test_parts(2)); };
    input_.ask_daemon = [](const std::string& path) -> Result<Reply> {
      if (path == "/v1/node") return Reply{200, kNode};
      return Reply{200, R"({"items":[{"processes":[{"libraryVersion":"1.2.3"}]}]})"};
    };
    input_.preload = [] { return Status(); };
  }

  void write(const fs::path& path, std::string_view text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  Finding finding(std::string_view check) const {
    for (const Finding& one : examine(input_)) {
      if (one.check == check) return one;
    }
    return {"", Verdict::kOk, "there is no finding " + std::string(check), ""};
  }
  void expect(std::string_view check, Verdict verdict, const std::string& text) const {
    const Finding found = finding(check);
    EXPECT_EQ(to_string(found.verdict), to_string(verdict)) << found.text;
    EXPECT_THAT(found.text, HasSubstr(text));
    EXPECT_EQ(found.fix.empty(), verdict == Verdict::kOk) << "what to do about: " << found.text;
  }

  TemporaryFolder root_;
  DoctorInput input_;
};

TEST_F(Doctor, FindsNothingWhereAllIsWell) {
  if (::geteuid() != 0) GTEST_SKIP() << "the folders of CDI have to be root's";
  for (const Finding& one : examine(input_)) {
    EXPECT_EQ(to_string(one.verdict), "ok") << one.check << ": " << one.text;
    EXPECT_EQ(one.fix, "");
  }
  std::ostringstream out;
  EXPECT_EQ(run_doctor(input_, OutputFormat::kTable, plain_style(), out), 0);
  EXPECT_THAT(out.str(), HasSubstr("0 errors, 0 warnings"));
}

TEST_F(Doctor, TellsADriverThatWasUpdatedInUse) {
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.10  x\n");
  expect("driver.kernel_module", Verdict::kError,
         "kernel module is version 570.10 and the driver's libraries are 580.159.04");
  fs::remove(root_ / "proc/driver/nvidia/version");
  expect("driver.kernel_module", Verdict::kError, "not loaded");
}

TEST_F(Doctor, TellsAMissingDriverAndNouveau) {
  input_.inventory = []() -> Result<model::Node> {
    return err(ErrorCode::kNotFound, "libnvidia-ml.so.1 was not found\nmore");
  };
  write("proc/modules", "nouveau 1 0 - Live\n");
  expect("driver.gpus", Verdict::kError, "no GPU answers: libnvidia-ml.so.1 was not found");
  expect("driver.nouveau", Verdict::kError, "nouveau is loaded");
}

TEST_F(Doctor, TellsMissingAndClosedDevices) {
  fs::permissions(root_ / "dev/nvidia0", fs::perms(0660));
  expect("driver.device_nodes", Verdict::kWarning, "not everybody may use /dev/nvidia0");
  fs::remove(root_ / "dev/nvidia-uvm");
  expect("driver.device_nodes", Verdict::kError, "/dev/nvidia-uvm is missing");
  fs::remove(root_ / "run/nvidia-persistenced/socket");
  expect("driver.persistence", Verdict::kNote, "nvidia-persistenced does not run");
}

TEST_F(Doctor, OfSimulatedGpusOnlyTheNumberIsLookedAt) {
  input_.inventory = [] {
    auto parts = test_parts(2);
    parts.simulated = true;
    return test_node(std::move(parts));
  };
  EXPECT_EQ(examine_driver(input_).size(), 1U);
  expect("driver.gpus", Verdict::kOk, "2 simulated GPUs answer");
}

TEST_F(Doctor, TellsADaemonThatIsMissingOrOfAnotherVersion) {
  input_.version = "1.3.0";
  expect("daemon.version", Verdict::kWarning, "divvyd is version 1.2.3 and this divvy 1.3.0");
  expect("daemon.processes", Verdict::kNote, "1 of 1 process runs with the library of another");
  input_.simulated = true;
  expect("daemon.kind", Verdict::kError, "has real GPUs and this environment asks for simulated");
  input_.ask_daemon = [](const std::string&) -> Result<Reply> {
    return err(ErrorCode::kUnavailable, "nobody listens");
  };
  expect("daemon.version", Verdict::kWarning, "no divvyd runs in /run/divvy");
  input_.ask_daemon = [](const std::string&) -> Result<Reply> {
    return err(ErrorCode::kTimeout, "no answer within 5 s");
  };
  expect("daemon.version", Verdict::kError, "no answer within 5 s");
}

TEST_F(Doctor, TellsWhatIsWrongWithFoldersAndLibrary) {
  fs::permissions(root_ / "var/lib/divvy", fs::perms(0777));
  expect("daemon.state_folder", Verdict::kWarning, "others may write");
  write("run/divvy/divvyd.sock", "");
  expect("daemon.socket", Verdict::kError, "is no socket");
  input_.preload = [] { return Status(err(ErrorCode::kUnsupported, "wrong ELF class")); };
  expect("daemon.library", Verdict::kError, "cannot be loaded: wrong ELF class");
  fs::remove(input_.shim);
  expect("daemon.library", Verdict::kError, "is missing");
  input_.settings.file = err(ErrorCode::kInvalidArgument, "f:1:2: wrong");
  EXPECT_EQ(finding("daemon.configuration").fix, "f:1:2: wrong");
}

TEST_F(Doctor, NamesWhoHasTheMetricsPort) {
  write("proc/net/tcp",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid timeout "
        "inode\n   0: 00000000:24B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0  "
        "      0 777 1 0\n");
  expect("system.metrics_port", Verdict::kWarning, "taken by another program");
  write("proc/42/comm", "dcgm-exporter\n");
  fs::create_directories(root_ / "proc/42/fd");
  fs::create_symlink("socket:[777]", root_ / "proc/42/fd/5");
  expect("system.metrics_port", Verdict::kWarning, "taken by dcgm-exporter (pid 42)");
  write("proc/42/comm", "divvyd\n");
  expect("system.metrics_port", Verdict::kOk, "divvyd serves metrics on port 9400");
  input_.settings.metrics_port = 9401;
  expect("system.metrics_port", Verdict::kOk, "port 9401 is free");
  input_.settings.metrics_port = 0;
  expect("system.metrics_port", Verdict::kOk, "not served");
}

TEST_F(Doctor, TellsKernelControlGroupsLimitsMpsAndClock) {
  input_.kernel = "4.19.0";
  expect("system.kernel", Verdict::kError, "4.19.0 is too old");
  fs::remove_all(root_ / "sys/fs/cgroup");
  expect("system.cgroups", Verdict::kWarning, "no control groups");
  fs::create_directories(root_ / "sys/fs/cgroup/memory");
  expect("system.cgroups", Verdict::kNote, "version 1");
  write("sys/fs/cgroup/unified/cgroup.procs", "");
  expect("system.cgroups", Verdict::kNote, "hybrid");
  write("run/divvy/divvyd.lock", "17\n");
  write("proc/17/limits", "Max open files            1024                 4096        files\n");
  expect("system.open_files", Verdict::kWarning, "divvyd may open 1024 files");
  fs::remove(root_ / "usr/bin/nvidia-cuda-mps-control");
  expect("system.mps", Verdict::kNote, "not in PATH");
  input_.clock_synchronized = false;
  expect("system.clock", Verdict::kNote, "not kept in step");
  input_.now = WallTime();
  expect("system.clock", Verdict::kError, "before 2024");
}

TEST_F(Doctor, FoldersOfContainersMustBeRoots) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs folders that are root's";
  fs::permissions(root_ / "etc/cdi", fs::perms(0777));
  expect("system.cdi", Verdict::kError, "others than root may write to /etc/cdi");
  fs::remove_all(root_ / "etc/cdi");
  fs::remove_all(root_ / "var/run/cdi");
  expect("system.cdi", Verdict::kNote, "no folders for devices of containers");
}

TEST_F(Doctor, ErrorsDecideTheExitStatusAndProgramsCanRead) {
  input_.kernel = "4.19.0";
  std::ostringstream out;
  EXPECT_EQ(run_doctor(input_, OutputFormat::kJson, plain_style(), out), 1);
  const auto document = boost::json::parse(out.str()).as_object();
  EXPECT_EQ(document.at("kind").as_string(), "Examination");
  EXPECT_EQ(document.at("errors").to_number<int>(), 1);
  bool found = false;
  for (const auto& item : document.at("findings").as_array()) {
    if (item.at("check").as_string() != "system.kernel") continue;
    found = true;
    EXPECT_EQ(item.at("verdict").as_string(), "error");
    EXPECT_TRUE(item.at("fix").is_string());
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace divvy::cli
