// Memory and events between two processes. The test is the owner; the other process is this
// program started anew, because a driver does not survive a fork, and plays one of the roles at the
// end of this file.
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <utility>
#include <vector>

#include "simgpu/cuda_memory_fixture.h"
#include "simgpu/driver.h"

namespace divvy::simgpu {
namespace {

constexpr char kSocketVariable[] = "SIMGPU_TEST_SOCKET";
constexpr char kRoleVariable[] = "SIMGPU_TEST_ROLE";

// One end of the line between the two.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  template <typename T>
  void send(const T& value) const {
    ASSERT_EQ(write(fd_, &value, sizeof(value)), static_cast<ssize_t>(sizeof(value)));
  }
  template <typename T>
  T receive() const {
    T value{};
    EXPECT_EQ(recv(fd_, &value, sizeof(value), MSG_WAITALL), static_cast<ssize_t>(sizeof(value)));
    return value;
  }

 private:
  int fd_;
};

class OtherProcess {
 public:
  explicit OtherProcess(const std::string& role) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ours_ = ends[0];
    fcntl(ours_, F_SETFD, FD_CLOEXEC);
    // Both must see the same GPUs, whatever other suites did to the environment.
    const std::string state = "DIVVY_SIM_STATE=" + Driver::get().state().path();
    const std::string socket_number = std::string(kSocketVariable) + "=" + std::to_string(ends[1]);
    const std::string role_name = std::string(kRoleVariable) + "=" + role;
    std::vector<char*> environment;
    for (char** one = environ; *one != nullptr; ++one) {
      if (strncmp(*one, "DIVVY_SIM_STATE=", 16) != 0 && strncmp(*one, "GTEST_", 6) != 0) {
        environment.push_back(*one);
      }
    }
    environment.push_back(const_cast<char*>(state.c_str()));
    environment.push_back(const_cast<char*>(socket_number.c_str()));
    environment.push_back(const_cast<char*>(role_name.c_str()));
    environment.push_back(nullptr);
    const char* const arguments[] = {"other", "--gtest_filter=CudaSharing.*", nullptr};
    pid_ = fork();
    if (pid_ == 0) {
      execve("/proc/self/exe", const_cast<char**>(arguments), environment.data());
      _exit(127);
    }
    close(ends[1]);
  }
  ~OtherProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(ours_);
  }
  Line line() const { return Line(ours_); }
  int wait() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }
  void kill_now() {
    kill(pid_, SIGKILL);
    wait();
  }

 private:
  int ours_ = -1;
  pid_t pid_ = -1;
};

class CudaSharing : public CudaMemory {
 protected:
  void SetUp() override {
    if (access(Driver::get().state().path().c_str(), F_OK) != 0) {
      GTEST_SKIP() << "another suite removed the shared state; run the tests through ctest";
    }
  }
};

// A descriptor that the other process inherits.
int inheritable(int fd) {
  const int copy = dup(fd);
  close(fd);
  return copy;
}

struct MemoryOffer {
  CUipcMemHandle handle;
  uint64_t before;
};

TEST_F(CudaSharing, OpenedMemoryIsTheOwners) {
  CUdeviceptr other = 0;
  CUdeviceptr p = 0;
  ASSERT_EQ(cuMemAlloc_v2(&other, 512), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&p, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8_v2(p, 0x42, 1000), CUDA_SUCCESS);
  MemoryOffer offer{};
  ASSERT_EQ(cuIpcGetMemHandle(&offer.handle, p + 100), CUDA_SUCCESS);
  CUdeviceptr own = 0;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&own, offer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_CONTEXT);
  OtherProcess opener("opens_memory");
  opener.line().send(offer);
  EXPECT_EQ(opener.wait(), 0);
  uint32_t read = 0;
  ASSERT_EQ(cuMemcpyDtoH_v2(&read, p, 4), CUDA_SUCCESS);
  EXPECT_EQ(read, 0x17171717u);
}

TEST_F(CudaSharing, OnlyPlainMemoryHasAHandle) {
  CUipcMemHandle handle{};
  CUdeviceptr managed = 0;
  CUdeviceptr pooled = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&pooled, 100, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, managed), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, pooled), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, 0x1234), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr p = 0;
  memset(&handle, 0x55, sizeof(handle));
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(0x1234), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(pooled, nullptr), CUDA_SUCCESS);
}

TEST_F(CudaSharing, AHandleOfADeadProcessOpensNothing) {
  OtherProcess owner("offers_memory");
  const auto handle = owner.line().receive<CUipcMemHandle>();
  owner.kill_now();
  CUdeviceptr p = 0;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CudaSharing, AKilledProcessGivesItsMemoryBack) {
  OtherProcess owner("offers_memory");
  owner.line().receive<CUipcMemHandle>();
  EXPECT_GE(taken(), 1024u);
  owner.kill_now();
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaSharing, AnEventIsWaitedForAcrossProcesses) {
  CUevent event = nullptr;
  CUevent plain = nullptr;
  CUipcEventHandle handle{};
  ASSERT_EQ(cuEventCreate(&plain, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  uint32_t* gate = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(reinterpret_cast<void**>(&gate), 4), CUDA_SUCCESS);
  *gate = 0;
  ASSERT_EQ(cuStreamWaitValue32_v2(nullptr, reinterpret_cast<CUdeviceptr>(gate), 1,
                                   CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
  CUevent own = nullptr;
  EXPECT_EQ(cuIpcOpenEventHandle(&own, handle), CUDA_ERROR_INVALID_CONTEXT);
  OtherProcess waiter("waits_for_event");
  waiter.line().send(handle);
  EXPECT_EQ(waiter.line().receive<char>(), 'n');
  __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
  EXPECT_EQ(waiter.wait(), 0);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
}

TEST_F(CudaSharing, EntriesOfDestroyedEventsAreUsedAgain) {
  for (int i = 0; i < 3 * kMaxIpcEvents; ++i) {
    CUevent event = nullptr;
    CUipcEventHandle handle{};
    ASSERT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    ASSERT_EQ(cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
    ASSERT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  }
}

struct FileOffer {
  int fd;
  CUmemPoolPtrExportData pointer;
};

TEST_F(CudaSharing, VirtualMemoryTravelsAsADescriptor) {
  const CUmemAllocationProp prop = device_prop(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemGenericAllocationHandle handle = 0;
  FileOffer offer{};
  ASSERT_EQ(cuMemCreate(&handle, 4 * kMiB, &prop, 0), CUDA_SUCCESS);
  ASSERT_EQ(
      cuMemExportToShareableHandle(&offer.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_SUCCESS);
  offer.fd = inheritable(offer.fd);
  CUdeviceptr p = 0;
  ASSERT_EQ(cuMemAddressReserve(&p, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(p, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(p, 4 * kMiB, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8_v2(p, 0x42, 1000), CUDA_SUCCESS);
  OtherProcess importer("imports_virtual_memory");
  importer.line().send(offer);
  EXPECT_EQ(importer.wait(), 0);
  close(offer.fd);
}

TEST_F(CudaSharing, APoolAndItsPointersTravelToo) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  CUdeviceptr p = 0;
  FileOffer offer{};
  ASSERT_EQ(cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocFromPoolAsync(&p, 1000, pool, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8_v2(p, 0x42, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolExportToShareableHandle(&offer.fd, pool,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolExportPointer(&offer.pointer, p), CUDA_SUCCESS);
  offer.fd = inheritable(offer.fd);
  OtherProcess importer("imports_pool");
  importer.line().send(offer);
  EXPECT_EQ(importer.wait(), 0);
  close(offer.fd);
  EXPECT_EQ(cuMemFree_v2(p), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

// What follows runs in the other process.

uint32_t word_at(CUdeviceptr address) {
  uint32_t word = 0;
  EXPECT_EQ(cuMemcpyDtoH_v2(&word, address, 4), CUDA_SUCCESS);
  return word;
}

size_t free_now() {
  size_t free = 0;
  EXPECT_EQ(cuMemGetInfo_v2(&free, nullptr), CUDA_SUCCESS);
  return free;
}

void opens_memory(const Line& line) {
  const auto offer = line.receive<MemoryOffer>();
  const size_t before = free_now();
  CUdeviceptr p = 0;
  CUdeviceptr again = 0;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&p, offer.handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuIpcOpenMemHandle_v2(&p, offer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_SUCCESS);
  ASSERT_EQ(cuIpcOpenMemHandle_v2(&again, offer.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_SUCCESS);
  EXPECT_EQ(p, again);
  EXPECT_EQ(free_now(), before) << "memory is charged to its owner only";
  EXPECT_EQ(word_at(p), 0x42424242u);
  size_t size = 0;
  CUdeviceptr base = 0;
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, p), CUDA_SUCCESS);
  EXPECT_EQ(base, p);
  EXPECT_EQ(size, 1000u);
  EXPECT_EQ(cuMemsetD8_v2(p, 0x17, 1000), CUDA_SUCCESS);
  CUipcMemHandle handle{};
  EXPECT_EQ(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, p), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(p + 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcCloseMemHandle(p), CUDA_SUCCESS);
  EXPECT_EQ(word_at(p), 0x17171717u);
  EXPECT_EQ(cuIpcCloseMemHandle(p), CUDA_SUCCESS);
  EXPECT_EQ(cuIpcCloseMemHandle(p), CUDA_ERROR_INVALID_VALUE);
}

void offers_memory(const Line& line) {
  CUdeviceptr p = 0;
  CUipcMemHandle handle{};
  ASSERT_EQ(cuMemAlloc_v2(&p, 1024 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuIpcGetMemHandle(&handle, p), CUDA_SUCCESS);
  line.send(handle);
  pause();
}

void waits_for_event(const Line& line) {
  const auto handle = line.receive<CUipcEventHandle>();
  CUevent event = nullptr;
  ASSERT_EQ(cuIpcOpenEventHandle(&event, handle), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  CUipcEventHandle again{};
  EXPECT_EQ(cuIpcGetEventHandle(&again, event), CUDA_ERROR_INVALID_HANDLE);
  line.send('n');
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
}

void imports_virtual_memory(const Line& line) {
  const auto offer = line.receive<FileOffer>();
  const size_t before = free_now();
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(intptr_t{offer.fd}),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  EXPECT_EQ(free_now(), before);
  CUdeviceptr p = 0;
  ASSERT_EQ(cuMemAddressReserve(&p, 4 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(p, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(p, 4 * kMiB, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(word_at(p), 0x42424242u);
}

void imports_pool(const Line& line) {
  auto offer = line.receive<FileOffer>();
  CUmemoryPool pool = nullptr;
  CUdeviceptr p = 0;
  ASSERT_EQ(cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t{offer.fd}),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&p, 100, pool, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemPoolImportPointer(&p, pool, &offer.pointer), CUDA_SUCCESS);
  EXPECT_EQ(word_at(p), 0x42424242u);
  EXPECT_EQ(cuMemFreeAsync(p, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

// Plays the role and ends the process before any test begins.
class Role : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* name = getenv(kRoleVariable);
    const char* number = getenv(kSocketVariable);
    if (name == nullptr || number == nullptr) return;
    const Line line(atoi(number));
    CUcontext context = nullptr;
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    for (const auto& [known, play] : kRoles) {
      if (strcmp(name, known) == 0) play(line);
    }
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }

 private:
  static constexpr std::pair<const char*, void (*)(const Line&)> kRoles[] = {
      {"opens_memory", opens_memory},       {"offers_memory", offers_memory},
      {"waits_for_event", waits_for_event}, {"imports_virtual_memory", imports_virtual_memory},
      {"imports_pool", imports_pool},
  };
};

// GoogleTest owns it.
const ::testing::Environment* const kRole = ::testing::AddGlobalTestEnvironment(new Role);

}  // namespace
}  // namespace divvy::simgpu
