// Processes of a tenant: joining, several under one limit, and what the shim must leave alone.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "shim/join_patience.h"
#include "shim/tenant_fixture.h"

namespace divvy::shim {
namespace {

constexpr uint64_t kLimit = 8 * kGiB;

size_t threads_of_this_process() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

TEST(TenantProcess, KeepsUmaskAndSignalHandlers) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const mode_t before = umask(0027);
  std::vector<struct sigaction> handlers(64);
  const auto read_handlers = [](std::vector<struct sigaction>& to) {
    for (int signal = 1; signal < 64; ++signal) {
      sigaction(signal, nullptr, &to[static_cast<size_t>(signal)]);
    }
  };
  read_handlers(handlers);
  sigset_t mask{};
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  const size_t threads = threads_of_this_process();
  const Cuda cu;
  EXPECT_EQ(threads_of_this_process(), threads) << "no thread before cuInit";
  cu.begin();
  CUdeviceptr pointer = 0;
  EXPECT_EQ(cu.cuMemAlloc_v2(&pointer, kMiB), CUDA_SUCCESS);

  EXPECT_EQ(umask(before), mode_t{0027});
  std::vector<struct sigaction> after(64);
  read_handlers(after);
  for (size_t signal = 1; signal < 64; ++signal) {
    EXPECT_EQ(handlers[signal].sa_handler, after[signal].sa_handler) << "signal " << signal;
    EXPECT_EQ(handlers[signal].sa_flags, after[signal].sa_flags) << "signal " << signal;
  }
  sigset_t mask_after{};
  sigprocmask(SIG_SETMASK, nullptr, &mask_after);
  EXPECT_EQ(memcmp(&mask, &mask_after, sizeof mask), 0);
}

// Slots are never moved together: the first process ends, two others are still held to one limit.
TEST(TenantProcess, ThirdProcessCannotExceedTheLimit) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit},
                          .after = [](FakeDaemon& daemon) { EXPECT_EQ(daemon.registered(), 3); }});
  }
  // Three processes that take everything they can get, one word at a time through pipes.
  struct Child {
    pid_t pid;
    int ask;
    int answer;
  };
  const auto start = [] {
    int ask[2];
    int answer[2];
    EXPECT_EQ(pipe(ask), 0);
    EXPECT_EQ(pipe(answer), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(ask[1]);
      const Cuda cu;
      cu.begin();
      uint64_t words[3] = {};
      uint64_t bytes = 0;
      while (read(ask[0], &bytes, sizeof bytes) == static_cast<ssize_t>(sizeof bytes)) {
        CUdeviceptr pointer = 0;
        words[0] = cu.cuMemAlloc_v2(&pointer, bytes);
        words[1] = cu.free_bytes();
        if (write(answer[1], words, sizeof words) < 0) break;
      }
      _exit(0);
    }
    close(ask[0]);
    close(answer[1]);
    return Child{pid, ask[1], answer[0]};
  };
  const auto take = [](const Child& child, uint64_t bytes) {
    uint64_t words[3] = {~0ULL, 0, 0};
    EXPECT_EQ(write(child.ask, &bytes, sizeof bytes), static_cast<ssize_t>(sizeof bytes));
    EXPECT_EQ(read(child.answer, words, sizeof words), static_cast<ssize_t>(sizeof words));
    return static_cast<CUresult>(words[0]);
  };
  Child first = start();
  Child second = start();
  EXPECT_EQ(take(first, kGiB), CUDA_SUCCESS);
  EXPECT_EQ(take(second, 4 * kGiB), CUDA_SUCCESS);
  EXPECT_EQ(kill(first.pid, SIGKILL), 0);
  EXPECT_EQ(waitpid(first.pid, nullptr, 0), first.pid);
  Child third = start();
  EXPECT_EQ(take(third, kLimit - 4 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(take(third, 2 * kGiB), CUDA_SUCCESS);
  EXPECT_EQ(take(second, 2 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
  for (const Child& child : {second, third}) {
    EXPECT_EQ(kill(child.pid, SIGKILL), 0);
    EXPECT_EQ(waitpid(child.pid, nullptr, 0), child.pid);
  }
}

TEST(TenantProcess, TogetherTheyNeverTakeMoreThanTheSlice) {
  constexpr int kProcesses = 4;
  if (!inside_tenant()) {
    return run_as_tenant(
        {.limits = {kLimit},
         .before = [](FakeDaemon& daemon) { daemon.control().gpu[0].context_bytes = 512 * kMiB; },
         .processes = kProcesses});
  }
  const Cuda cu;
  CUcontext context = nullptr;
  ASSERT_EQ(cu.cuInit(0), CUDA_SUCCESS);
  CUresult made = CUDA_ERROR_OUT_OF_MEMORY;
  // While a sibling has taken everything there is no room even for a context.
  while (made == CUDA_ERROR_OUT_OF_MEMORY) made = cu.cuDevicePrimaryCtxRetain(&context, 0);
  ASSERT_EQ(made, CUDA_SUCCESS);
  ASSERT_EQ(cu.cuCtxSetCurrent(context), CUDA_SUCCESS);
  const Nvml nvml;
  for (int round = 0; round < 20; ++round) {
    std::vector<CUdeviceptr> held;
    CUdeviceptr pointer = 0;
    while (cu.cuMemAlloc_v2(&pointer, 100 * kMiB) == CUDA_SUCCESS) held.push_back(pointer);
    EXPECT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    unsigned count = 16;
    nvmlProcessInfo_t list[16];
    EXPECT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, list), NVML_SUCCESS);
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; ++i) sum += list[i].usedGpuMemory;
    EXPECT_LE(sum, kLimit);
    for (const CUdeviceptr each : held) cu.cuMemFree_v2(each);
  }
}

// The daemon lowers the limit below what is in use, and raises it again, while the program runs.
TEST(TenantProcess, ALimitMayChangeAtAnyTime) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .during = [](FakeDaemon& daemon) {
                            const auto& used = daemon.account().slot[0].gpu[0].used;
                            while (used < 4 * kGiB) sched_yield();
                            daemon.control().gpu[0].memory_limit = 2 * kGiB;
                            while (used >= 4 * kGiB) sched_yield();
                            daemon.control().gpu[0].memory_limit = 3 * kGiB;
                          }});
  }
  const Cuda cu;
  cu.begin();
  CUdeviceptr large = 0;
  ASSERT_EQ(cu.cuMemAlloc_v2(&large, 4 * kGiB), CUDA_SUCCESS);
  while (cu.total_bytes() != 2 * kGiB) sched_yield();
  EXPECT_EQ(cu.free_bytes(), 0U);
  CUdeviceptr small = 0;
  EXPECT_EQ(cu.cuMemAlloc_v2(&small, 512), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu.cuMemAllocAsync(&small, 512, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu.cuMemFree_v2(large), CUDA_SUCCESS);
  while (cu.total_bytes() != 3 * kGiB) sched_yield();
  EXPECT_EQ(cu.cuMemAlloc_v2(&large, 2 * kGiB), CUDA_SUCCESS);
}

// Two processes allocate and free; one is killed over and over. The other always goes on, and what
// the dead one held is there for the taking.
TEST(TenantProcess, AKilledSiblingReleasesItsMemory) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .before = [](FakeDaemon& daemon) {
                            daemon.control().gpu[0].context_bytes = 512 * kMiB;
                          }});
  }
  for (int round = 0; round < 20; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      const Cuda cu;
      cu.begin();
      for (;;) {
        CUdeviceptr pointer = 0;
        cu.cuMemAlloc_v2(&pointer, kGiB);
        if (write(ready[1], "x", 1) < 0) _exit(1);
        cu.cuMemFree_v2(pointer);
      }
    }
    close(ready[1]);
    char byte = 0;
    for (int i = 0; i <= round; ++i) ASSERT_EQ(read(ready[0], &byte, 1), 1);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(ready[0]);
  }
  const Cuda cu;
  cu.begin();
  CUdeviceptr pointer = 0;
  // The daemon hears of the last death a little later.
  while (cu.free_bytes() < 7 * kGiB) sched_yield();
  EXPECT_EQ(cu.cuMemAlloc_v2(&pointer, 7 * kGiB), CUDA_SUCCESS);
}

TEST(TenantProcess, AContextThatDoesNotFitIsRefused) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {256 * kMiB}, .before = [](FakeDaemon& daemon) {
                            daemon.control().gpu[0].context_bytes = 512 * kMiB;
                          }});
  }
  const Cuda cu;
  CUcontext context = nullptr;
  ASSERT_EQ(cu.cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu.cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(TenantProcess, AContextThatTurnsOutTooLargeIsTakenDownAgain) {
  if (!inside_tenant()) return run_as_tenant({.limits = {256 * kMiB}});
  const Cuda cu;
  CUcontext context = nullptr;
  ASSERT_EQ(cu.cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cu.cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu.cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Nvml().own_bytes(), 0U);
}

TEST(TenantProcess, ContextsCountWhatTheDaemonSaysWhenNobodyMeasures) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .measured = false, .before = [](FakeDaemon& daemon) {
                            daemon.control().gpu[0].context_bytes = 512 * kMiB;
                          }});
  }
  const Cuda cu;
  cu.begin();
  EXPECT_EQ(cu.free_bytes(), kLimit - 512 * kMiB);
}

TEST(TenantProcess, ARefusedProcessIsToldSo) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .before = [](FakeDaemon& daemon) {
                            daemon.refuse(wire::Refusal::kTooManyProcesses);
                          }});
  }
  EXPECT_EQ(Cuda().cuInit(0), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(Nvml().nvmlInit_v2(), NVML_ERROR_NO_PERMISSION);
}

TEST(TenantProcess, SpeaksTheVersionOfAnOlderDaemon) {
  if (!inside_tenant()) {
    return run_as_tenant(
        {.limits = {kLimit},
         .before = [](FakeDaemon& daemon) { daemon.speak_up_to(wire::kOldestWireVersion); },
         .after = [](FakeDaemon& daemon) { EXPECT_EQ(daemon.registered(), 1); }});
  }
  const Cuda cu;
  cu.begin();
  EXPECT_EQ(cu.total_bytes(), kLimit);
}

// It could not be limited, so it does not run on the GPU at all; what it does about that is its own
// business.
TEST(TenantProcess, ADaemonThatIsTooOldRefusesTheProcessAndDoesNotEndIt) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .before = [](FakeDaemon& daemon) {
                            daemon.speak_up_to(wire::kOldestWireVersion - 1);
                          }});
  }
  EXPECT_EQ(Cuda().cuInit(0), CUDA_ERROR_NOT_PERMITTED);
}

TEST(TenantProcess, WithoutASocketNothingChanges) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .environment = {{"DIVVY_SOCKET", ""}}});
  }
  const Cuda cu;
  cu.begin();
  EXPECT_GT(cu.total_bytes(), 100 * kGiB);
  int count = 0;
  EXPECT_EQ(cu.cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
}

TEST(TenantProcess, SeesOnlyGrantedGpusInTheirOrder) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}, .gpus = {1}});
  const Cuda cu;
  ASSERT_EQ(cu.cuInit(0), CUDA_SUCCESS);
  int count = 0;
  EXPECT_EQ(cu.cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(std::string(getenv("CUDA_VISIBLE_DEVICES")).substr(0, 4), "GPU-");
}

TEST(TenantProcess, IndicesOfTheProgramCountItsSlices) {
  if (!inside_tenant()) {
    return run_as_tenant(
        {.limits = {kLimit, 2 * kGiB}, .environment = {{"CUDA_VISIBLE_DEVICES", "1"}}});
  }
  const Cuda cu;
  cu.begin();
  EXPECT_EQ(cu.total_bytes(), 2 * kGiB);
}

// A child that starts CUDA is a process of its own and is charged for what it takes itself.
TEST(TenantProcess, AForkedChildRegistersAnew) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit},
                          .after = [](FakeDaemon& daemon) { EXPECT_EQ(daemon.registered(), 2); }});
  }
  ASSERT_EQ(Nvml().nvmlInit_v2(), NVML_SUCCESS);
  const pid_t child = fork();
  if (child == 0) {
    const Cuda cu;
    cu.begin();
    CUdeviceptr pointer = 0;
    const bool good = cu.cuMemAlloc_v2(&pointer, kGiB) == CUDA_SUCCESS &&
                      cu.free_bytes() < kLimit - kGiB && cu.cuMemFree_v2(pointer) == CUDA_SUCCESS;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// --- Daemons that do not answer, and programs that do not know of our descriptors ---

// A socket that somebody listens at and nobody answers, as that of a daemon that is stopped.
class SilentSocket {
 public:
  // `room`: connections that it takes before it is full.
  explicit SilentSocket(int room) : path_(::testing::TempDir() + "silent-XXXXXX") {
    close(mkstemp(path_.data()));
    unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path_.c_str(), path_.size());
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    sockets_.push_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(sockets_[0], where, sizeof address), 0);
    EXPECT_EQ(listen(sockets_[0], room), 0);
    for (bool full = room > 0; !full;) {
      sockets_.push_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      full = connect(sockets_.back(), where, sizeof address) != 0;
    }
  }
  ~SilentSocket() {
    for (const int each : sockets_) close(each);
    unlink(path_.c_str());
  }
  SilentSocket(const SilentSocket&) = delete;
  SilentSocket& operator=(const SilentSocket&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<int> sockets_;
};

void init_beside_silence(int room) {
  if (inside_tenant()) {
    EXPECT_EQ(Cuda().cuInit(0), CUDA_ERROR_SYSTEM_NOT_READY);
    return;
  }
  const SilentSocket socket(room);
  run_as_tenant({.limits = {kLimit}, .environment = {{"DIVVY_SOCKET", socket.path()}}});
}

TEST(TenantProcess, InitEndsBesideADaemonThatIsStopped) { init_beside_silence(64); }
TEST(TenantProcess, InitEndsBesideADaemonWhoseQueueIsFull) { init_beside_silence(0); }

TEST(TenantProcess, InitWaitsAsLongAsItWasTold) {
  if (inside_tenant()) {
    EXPECT_EQ(Cuda().cuInit(0), CUDA_ERROR_SYSTEM_NOT_READY);
    return;
  }
  const SilentSocket socket(64);
  run_as_tenant({.limits = {kLimit},
                 .environment = {{"DIVVY_SOCKET", socket.path()}, {"DIVVY_SOCKET_WAIT", "1"}}});
}

// As a node agent that is being upgraded is.
TEST(TenantProcess, InitOutlastsADaemonThatIsAwayForLongerThanUsual) {
  static const std::string absent =
      ::testing::TempDir() + "absent-" + std::to_string(getpid()) + ".sock";
  if (!inside_tenant()) {
    run_as_tenant({.limits = {kLimit},
                   .environment = {{"DIVVY_SOCKET", absent}, {"DIVVY_SOCKET_WAIT", "60"}},
                   .during = [](FakeDaemon& daemon) {
                     std::this_thread::sleep_for(std::chrono::milliseconds(kJoinPatienceMs + 500));
                     std::filesystem::create_symlink(daemon.path(), absent);
                   }});
    std::filesystem::remove(absent);
    return;
  }
  const Cuda cu;
  cu.begin();
  EXPECT_EQ(cu.total_bytes(), kLimit);
}

TEST(JoinPatience, AnythingButAFewSecondsIsNotSet) {
  for (const char* wrong : {"", "0", "-1", "5s", " 5", "601", "99999999999999999999", "1e2"}) {
    EXPECT_EQ(join_patience_ms(wrong), kJoinPatienceMs) << wrong;
  }
  EXPECT_EQ(join_patience_ms(nullptr), kJoinPatienceMs);
  EXPECT_EQ(join_patience_ms("1"), 1000);
  EXPECT_EQ(join_patience_ms("060"), 60'000);
  EXPECT_EQ(join_patience_ms("600"), 600'000);
}

// For the tenant: the daemon is through with what the test wants of it.
void wait_for_limit(const Cuda& cu, uint64_t limit) {
  while (cu.total_bytes() != limit) sched_yield();
}

void wait_for_registrations(FakeDaemon& daemon, int count) {
  while (daemon.registered() < count) sched_yield();
}

// It was stopped while the daemon was restarted, for longer than that waits for anybody.
TEST(TenantProcess, ReregistersAfterTheDaemonForgotIt) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .during = [](FakeDaemon& daemon) {
                            while (daemon.bytes_in_use(0) < kGiB) sched_yield();
                            const uint64_t before = daemon.bytes_in_use(0);
                            daemon.forget_everybody();
                            wait_for_registrations(daemon, 2);
                            while (daemon.bytes_in_use(0) != before) sched_yield();
                            daemon.control().gpu[0].memory_limit = 4 * kGiB;
                          }});
  }
  const Cuda cu;
  cu.begin();
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cu.cuMemAlloc_v2(&pointer, kGiB), CUDA_SUCCESS);
  wait_for_limit(cu, 4 * kGiB);
  const uint64_t free = cu.free_bytes();
  EXPECT_LT(free, 3 * kGiB);
  EXPECT_EQ(cu.cuMemFree_v2(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), free + kGiB);
}

// The shim's descriptors, as a program finds them that closes what it does not know. (Not all: the
// simulated driver is in this process too.)
std::vector<int> descriptors_of_the_shim() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = std::filesystem::read_symlink(entry.path(), gone).string();
    if (to.starts_with("socket:") || to.find("memfd:") != std::string::npos) {
      found.push_back(std::stoi(entry.path().filename()));
    }
  }
  return found;
}

TEST(TenantProcess, AProgramThatClosesAllDescriptorsStaysATenant) {
  constexpr const char* kPtx =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      "//@simgpu nothing ns=1000\n"
      ".visible .entry nothing() { ret; }\n";
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .during = [](FakeDaemon& daemon) {
                            while (daemon.bytes_in_use(0) < kGiB) sched_yield();
                            daemon.control().gpu[0].batch_ns = 1000;
                            daemon.control().gpu[0].mode =
                                static_cast<uint32_t>(wire::Mode::kGated);
                            daemon.control().asleep = 1;
                            daemon.control().any_gated = 1;
                            daemon.control().gpu[0].memory_limit = 5 * kGiB;
                            wait_for_registrations(daemon, 2);
                            while (daemon.bytes_in_use(0) < kGiB) sched_yield();
                            daemon.control().gpu[0].memory_limit = 4 * kGiB;
                          }});
  }
  const Cuda cu;
  cu.begin();
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  ASSERT_EQ(cu.cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  ASSERT_EQ(cu.cuModuleGetFunction(&kernel, module, "nothing"), CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cu.cuMemAlloc_v2(&pointer, kGiB), CUDA_SUCCESS);
  wait_for_limit(cu, 5 * kGiB);
  // Every number is used again at once, for sockets of the program's own.
  int own[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, own), 0);
  for (const int each : descriptors_of_the_shim()) {
    if (each == own[0] || each == own[1]) continue;
    ASSERT_EQ(dup2(own[0], each), each);
  }
  const auto launch = [&] {
    ASSERT_EQ(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              CUDA_SUCCESS);
  };
  for (int i = 0; i < 10; ++i) launch();
  EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_SUCCESS);
  wait_for_limit(cu, 4 * kGiB);
  EXPECT_LT(cu.free_bytes(), 3 * kGiB);
  for (int i = 0; i < 10; ++i) launch();
  EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_SUCCESS);
  char byte = 0;
  EXPECT_EQ(recv(own[1], &byte, 1, MSG_DONTWAIT), -1) << "nothing came through its sockets";
  CUcontext other = nullptr;
  EXPECT_EQ(cu.cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS) << "pages can still be mapped";
  ASSERT_EQ(cu.cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  ASSERT_EQ(cu.cuModuleGetFunction(&kernel, module, "nothing"), CUDA_SUCCESS);
  launch();
  EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace divvy::shim
