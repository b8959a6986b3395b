// GPU time under the manual clock: exact, whatever the machine that runs the test is doing.
//
// Every test runs its program in child processes, because a process has one driver for its life.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "abi/cuda.h"
#include "simgpu/manual_clock.h"
#include "simgpu/mps.h"
#include "simgpu/scratch.h"
#include "simgpu/state.h"

namespace divvy::simgpu {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
//@simgpu spin ns=param0
.visible .entry spin(.param .u64 ns) { ret; }
)";

// A program's view of one simulated GPU.
class Program {
 public:
  Program() {
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context_, 0));
    ok(cuCtxSetCurrent(context_));
    CUmodule module = nullptr;
    ok(cuModuleLoadData(&module, kPtx));
    ok(cuModuleGetFunction(&spin_, module, "spin"));
  }
  // Fills the GPU when `blocks` is large, a small part of it when not.
  void spin(uint64_t ns, CUstream stream = nullptr, unsigned blocks = 4096) {
    void* params[] = {&ns};
    ok(cuLaunchKernel(spin_, blocks, 1, 1, 256, 1, 1, 0, stream, params, nullptr));
  }
  static void ok(CUresult result) { ASSERT_EQ(result, CUDA_SUCCESS); }

 private:
  CUcontext context_ = nullptr;
  CUfunction spin_ = nullptr;
};

// A child process that tells its parent when it has come to a point, and waits there for leave.
class Child {
 public:
  explicit Child(const std::function<void(Child&)>& body) {
    EXPECT_EQ(pipe(up_), 0);
    EXPECT_EQ(pipe(down_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      // Their other ends belong to the parent: a closed pipe must be noticed.
      close(up_[0]);
      close(down_[1]);
      body(*this);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    close(up_[1]);
    close(down_[0]);
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  // In the child: say so and wait.
  void reach() {
    char byte = 0;
    ASSERT_EQ(write(up_[1], &byte, 1), 1);
    ASSERT_EQ(read(down_[0], &byte, 1), 1);
  }
  // In the parent.
  void await_reached() {
    char byte = 0;
    ASSERT_EQ(read(up_[0], &byte, 1), 1) << "the child ended early";
  }
  void go_on() {
    char byte = 0;
    ASSERT_EQ(write(down_[1], &byte, 1), 1);
  }
  void expect_success() {
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int up_[2] = {};
  int down_[2] = {};
};

class CudaTimeline : public ::testing::Test {
 protected:
  CudaTimeline() {
    const std::string base = scratch("cuda-timeline");
    path_ = base + ".state";
    config_ = base + ".yaml";
    std::ofstream(config_) << "clock: manual\nslice: 2ms\ngpus:\n  - model: H200\n    count: 1\n";
    setenv("DIVVY_SIM_STATE", path_.c_str(), 1);
    setenv("DIVVY_SIM_CONFIG", config_.c_str(), 1);
    std::string error;
    state_.reset(SharedState::open(&error));
    EXPECT_NE(state_, nullptr) << error;
  }
  ~CudaTimeline() override {
    SharedState::remove(path_);
    unlink(config_.c_str());
  }
  void advance(uint64_t ns) {
    std::string error;
    ASSERT_TRUE(advance_manual_clock(*state_, ns, &error)) << error;
  }
  // GPU time that the process has taken so far.
  uint64_t consumed(pid_t pid) {
    for (const ProcessSlot& slot : state_->shared().slot) {
      if (slot.state.load() != 0 && slot.pid == pid) return slot.gpu[0].consumed_ns.load();
    }
    ADD_FAILURE() << "process " << pid << " is not on the GPU";
    return 0;
  }
  // Starts programs that each queue one kernel and wait, and returns when all have.
  std::vector<std::unique_ptr<Child>> queue_kernels(const std::vector<uint64_t>& lengths) {
    std::vector<std::unique_ptr<Child>> children;
    for (const uint64_t ns : lengths) {
      children.push_back(std::make_unique<Child>([ns](Child& self) {
        Program program;
        program.spin(ns);
        self.reach();
        EXPECT_EQ(cuStreamQuery(nullptr), CUDA_SUCCESS);
      }));
      children.back()->await_reached();
    }
    advance(0);  // everybody has asked for the GPU at the same simulated time
    return children;
  }

  std::string path_;
  std::string config_;
  std::unique_ptr<SharedState> state_;
};

TEST_F(CudaTimeline, AKernelTakesExactlyItsTime) {
  Child child([](Child& self) {
    Program program;
    CUevent start = nullptr;
    CUevent end = nullptr;
    Program::ok(cuEventCreate(&start, 0));
    Program::ok(cuEventCreate(&end, 0));
    Program::ok(cuEventRecord(start, nullptr));
    program.spin(5 * kMs);
    Program::ok(cuEventRecord(end, nullptr));
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    self.reach();
    EXPECT_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
    self.reach();
    EXPECT_EQ(cuEventQuery(end), CUDA_SUCCESS);
    float ms = 0;
    Program::ok(cuEventElapsedTime(&ms, start, end));
    EXPECT_FLOAT_EQ(ms, 5.0F);
  });
  child.await_reached();
  advance(5 * kMs - 1);
  child.go_on();
  child.await_reached();
  advance(1);
  child.go_on();
  child.expect_success();
}

TEST_F(CudaTimeline, KernelsOfAStreamFollowEachOther) {
  Child child([](Child& self) {
    Program program;
    program.spin(3 * kMs);
    program.spin(4 * kMs);
    self.reach();
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    self.reach();
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_SUCCESS);
  });
  child.await_reached();
  advance(7 * kMs - 1);
  child.go_on();
  child.await_reached();
  advance(1);
  EXPECT_EQ(consumed(child.pid()), 7 * kMs);
  child.go_on();
  child.expect_success();
}

TEST_F(CudaTimeline, SmallKernelsOfTwoStreamsRunTogetherAndLargeOnesDoNot) {
  for (const unsigned blocks : {8U, 4096U}) {
    Child child([blocks](Child& self) {
      Program program;
      CUstream one = nullptr;
      CUstream two = nullptr;
      Program::ok(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
      Program::ok(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
      program.spin(4 * kMs, one, blocks);
      program.spin(4 * kMs, two, blocks);
      self.reach();
      const bool together =
          cuStreamQuery(one) == CUDA_SUCCESS && cuStreamQuery(two) == CUDA_SUCCESS;
      EXPECT_EQ(together, blocks == 8);
    });
    child.await_reached();
    advance(4 * kMs);
    child.go_on();
    child.expect_success();
  }
}

// A control daemon of MPS, as far as the driver looks at it.
class MpsDaemon {
 public:
  MpsDaemon() {
    const auto address = mps_control_address(folder_);
    EXPECT_TRUE(address &&
                bind(socket_, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0 &&
                listen(socket_, 16) == 0);
    setenv("CUDA_MPS_PIPE_DIRECTORY", folder_.c_str(), 1);
  }
  ~MpsDaemon() {
    close(socket_);
    unlink((folder_ + "/control").c_str());
    rmdir(folder_.c_str());
    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  }

 private:
  static std::string make_folder() {
    char name[] = "/tmp/simgpu-mps-XXXXXX";
    return mkdtemp(name) == nullptr ? "" : name;
  }

  std::string folder_ = make_folder();
  int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

TEST_F(CudaTimeline, ClientsOfMpsRunAtTheSameTimeEachOnItsPart) {
  const MpsDaemon daemon;
  std::vector<std::unique_ptr<Child>> children;
  for (const char* threads : {"30", "70"}) {
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", threads, 1);
    children.push_back(std::make_unique<Child>([](Child& self) {
      Program program;
      int enabled = 0;
      Program::ok(cuDeviceGetAttribute(&enabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0));
      EXPECT_EQ(enabled, 1);
      program.spin(21 * kMs);
      program.spin(1000 * kMs);
      self.reach();
    }));
    children.back()->await_reached();
  }
  advance(0);
  advance(10 * kMs);
  EXPECT_EQ(consumed(children[0]->pid()), 3 * kMs);
  EXPECT_EQ(consumed(children[1]->pid()), 7 * kMs);
  advance(90 * kMs);
  EXPECT_EQ(consumed(children[0]->pid()), 30 * kMs);
  EXPECT_EQ(consumed(children[1]->pid()), 70 * kMs);
  for (auto& child : children) {
    child->go_on();
    child->expect_success();
  }
}

TEST_F(CudaTimeline, AKernelOnAPartOfTheGpuTakesLonger) {
  const MpsDaemon daemon;
  setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25", 1);
  Child child([](Child& self) {
    Program program;
    program.spin(5 * kMs);
    self.reach();
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    self.reach();
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_SUCCESS);
  });
  child.await_reached();
  advance(20 * kMs - 1);
  child.go_on();
  child.await_reached();
  advance(1);
  child.go_on();
  child.expect_success();
}

TEST_F(CudaTimeline, WithNoDaemonOfMpsProcessesTakeTurns) {
  setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1);
  auto children = queue_kernels({100 * kMs, 100 * kMs});
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  advance(40 * kMs);
  EXPECT_EQ(consumed(children[0]->pid()) + consumed(children[1]->pid()), 40 * kMs);
}

TEST_F(CudaTimeline, TwoProcessesShareTheGpuInSlices) {
  auto children = queue_kernels({10 * kMs, 10 * kMs});
  advance(10 * kMs);
  const uint64_t a = consumed(children[0]->pid());
  const uint64_t b = consumed(children[1]->pid());
  EXPECT_EQ(a + b, 10 * kMs) << "the GPU was never idle";
  EXPECT_LE(a > b ? a - b : b - a, 2 * kMs) << "no more than one slice apart";
  advance(10 * kMs);
  for (auto& child : children) {
    EXPECT_EQ(consumed(child->pid()), 10 * kMs);
    child->go_on();
    child->expect_success();
  }
}

TEST_F(CudaTimeline, AShortKernelWaitsForSlicesNotForALongKernel) {
  auto children = queue_kernels({50 * kMs, 1 * kMs});
  advance(4 * kMs);
  EXPECT_EQ(consumed(children[1]->pid()), 1 * kMs);
  children[1]->go_on();
  children[1]->expect_success();
}

TEST_F(CudaTimeline, WhatAStoppedProcessHasQueuedGoesOnAndCostsTheOthersTheirTurnsOnly) {
  auto children = queue_kernels({10 * kMs, 20 * kMs});
  ASSERT_EQ(kill(children[0]->pid(), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(waitpid(children[0]->pid(), &status, WUNTRACED), children[0]->pid());
  std::string error;
  // The stopped one cannot follow the clock; the other one must all the same.
  EXPECT_FALSE(advance_manual_clock(*state_, 30 * kMs, &error, 300));
  EXPECT_EQ(consumed(children[1]->pid()), 20 * kMs);
  ASSERT_EQ(kill(children[0]->pid(), SIGCONT), 0);
  advance(0);
  EXPECT_EQ(consumed(children[0]->pid()), 10 * kMs) << "it ran while its process was stopped";
  for (auto& child : children) {
    child->go_on();
    child->expect_success();
  }
}

TEST_F(CudaTimeline, AKilledProcessDoesNotHoldTheGpu) {
  auto children = queue_kernels({50 * kMs, 20 * kMs});
  kill(children[0]->pid(), SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(children[0]->pid(), &status, 0), children[0]->pid());
  advance(22 * kMs);
  children[1]->go_on();
  children[1]->expect_success();
}

TEST_F(CudaTimeline, AStreamWaitsForAValueThatAnotherProcessWrites) {
  auto* gate = static_cast<uint32_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Child child([gate](Child& self) {
    Program program;
    Program::ok(cuMemHostRegister_v2(gate, 4096, 0));
    const auto address = reinterpret_cast<CUdeviceptr>(gate);
    Program::ok(cuStreamWaitValue32_v2(nullptr, address, 1, CU_STREAM_WAIT_VALUE_EQ));
    program.spin(1 * kMs);
    Program::ok(cuStreamWriteValue32_v2(nullptr, address + 4, 7, 0));
    self.reach();
    Program::ok(cuStreamSynchronize(nullptr));
  });
  child.await_reached();
  advance(10 * kMs);
  EXPECT_EQ(__atomic_load_n(gate + 1, __ATOMIC_ACQUIRE), 0U) << "the gate is closed";
  EXPECT_EQ(consumed(child.pid()), 0U);
  child.go_on();
  __atomic_store_n(gate, 1U, __ATOMIC_RELEASE);
  // The gate opens at the present simulated time, seen by polling; time has to pass after that.
  while (__atomic_load_n(gate + 1, __ATOMIC_ACQUIRE) == 0) advance(1 * kMs);
  child.expect_success();
  EXPECT_EQ(gate[1], 7U);
  munmap(gate, 4096);
}

TEST_F(CudaTimeline, AStreamGoesOnWhenAnotherStreamHasWrittenTheValue) {
  Child child([](Child& self) {
    Program program;
    CUstream writer = nullptr;
    CUstream reader = nullptr;
    Program::ok(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
    Program::ok(cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING));
    alignas(4096) static uint32_t page[1024];
    Program::ok(cuMemHostRegister_v2(page, sizeof page, 0));
    const auto value = reinterpret_cast<CUdeviceptr>(page);
    Program::ok(cuStreamWaitValue32_v2(reader, value, 1, CU_STREAM_WAIT_VALUE_GEQ));
    program.spin(1 * kMs, reader);
    program.spin(3 * kMs, writer);
    Program::ok(cuStreamWriteValue32_v2(writer, value, 1, 0));
    self.reach();
    EXPECT_EQ(cuStreamQuery(reader), CUDA_SUCCESS) << "one step of the clock is enough";
  });
  child.await_reached();
  advance(4 * kMs);
  EXPECT_EQ(consumed(child.pid()), 4 * kMs);
  child.go_on();
  child.expect_success();
}

TEST_F(CudaTimeline, CopiesRunBesideKernels) {
  Child child([](Child& self) {
    Program program;
    CUstream stream = nullptr;
    Program::ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void* host = nullptr;
    CUdeviceptr device = 0;
    Program::ok(cuMemHostAlloc(&host, 1 << 20, 0));
    Program::ok(cuMemAlloc_v2(&device, 1 << 20));
    program.spin(20 * kMs);
    Program::ok(cuMemcpyHtoDAsync_v2(device, host, 1 << 20, stream));
    self.reach();
    EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  });
  child.await_reached();
  advance(1 * kMs);
  child.go_on();
  child.expect_success();
}

}  // namespace
}  // namespace divvy::simgpu
