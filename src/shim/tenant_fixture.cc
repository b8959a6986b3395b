#include "shim/tenant_fixture.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace divvy::shim {
namespace {

constexpr const char* kGpus = "2xH200";

std::string folder() {
  static const std::string path = [] {
    std::string made = ::testing::TempDir() + "tenant-XXXXXX";
    if (mkdtemp(made.data()) == nullptr) abort();
    return made;
  }();
  return path;
}

class RemoveFolder : public ::testing::Environment {
 public:
  void TearDown() override {
    if (!inside_tenant()) std::filesystem::remove_all(folder());
  }
};
const auto* const kRemoveFolder = ::testing::AddGlobalTestEnvironment(new RemoveFolder);

// The machine as the daemon sees it: the real library, not through a shim.
const Nvml& machine() {
  static const Nvml* nvml = [] {
    setenv("DIVVY_SIM_GPUS", kGpus, 1);
    setenv("DIVVY_SIM_STATE", (folder() + "/machine").c_str(), 1);
    setenv("LD_LIBRARY_PATH", SIMGPU_FOLDER, 1);
    if (dlopen(SIMGPU_FOLDER "/libnvidia-ml.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) abort();
    auto* made = new Nvml;
    if (made->nvmlInit_v2() != NVML_SUCCESS) abort();
    return made;
  }();
  return *nvml;
}

void read_uuid(unsigned gpu, uint8_t (&uuid)[16]) {
  nvmlDevice_t device = nullptr;
  char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = {};
  if (machine().nvmlDeviceGetHandleByIndex_v2(gpu, &device) != NVML_SUCCESS ||
      machine().nvmlDeviceGetUUID(device, text, sizeof text) != NVML_SUCCESS) {
    abort();
  }
  const char* from = text + 4;
  for (uint8_t& byte : uuid) {
    if (*from == '-') ++from;
    const char digits[] = {from[0], from[1], '\0'};
    byte = static_cast<uint8_t>(strtoul(digits, nullptr, 16));
    from += 2;
  }
}

pid_t start(const TenantSetup& setup, const std::string& socket, int number) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setenv("LD_PRELOAD", DIVVY_PRELOAD, 1);
  setenv("DIVVY_SOCKET", socket.c_str(), 1);
  setenv("DIVVY_TEST_PROCESS", std::to_string(number).c_str(), 1);
  for (const auto& [name, value] : setup.environment) setenv(name.c_str(), value.c_str(), 1);
  execl("/proc/self/exe", "tenant", filter.c_str(), "--gtest_brief=1", nullptr);
  _exit(127);
}

}  // namespace

bool held_by(pid_t pid, int gpu, uint64_t* bytes) {
  nvmlDevice_t device = nullptr;
  unsigned count = 64;
  nvmlProcessInfo_t list[64];
  if (machine().nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(gpu), &device) !=
          NVML_SUCCESS ||
      machine().nvmlDeviceGetComputeRunningProcesses_v3(device, &count, list) != NVML_SUCCESS) {
    return false;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (list[i].pid == static_cast<unsigned>(pid)) {
      *bytes = list[i].usedGpuMemory;
      return true;
    }
  }
  return false;
}

bool inside_tenant() { return getenv("DIVVY_SOCKET") != nullptr; }

void run_as_tenant(const TenantSetup& setup) {
  std::vector<int> gpus = setup.gpus;
  for (size_t i = gpus.size(); i < setup.limits.size(); ++i) gpus.push_back(static_cast<int>(i));
  std::vector<FakeDaemon::Slice> slices(setup.limits.size());
  for (size_t i = 0; i < slices.size(); ++i) {
    read_uuid(static_cast<unsigned>(gpus[i]), slices[i].uuid);
    slices[i].memory_limit = setup.limits[i];
  }
  static int count = 0;
  FakeDaemon daemon(folder() + "/" + std::to_string(count++) + ".sock", slices);
  if (setup.measured) {
    daemon.measure_with(
        [&](pid_t pid, uint32_t gpu, uint64_t* bytes) { return held_by(pid, gpus[gpu], bytes); });
  }
  if (setup.before) setup.before(daemon);
  std::vector<pid_t> children;
  children.reserve(static_cast<size_t>(setup.processes));
  for (int i = 0; i < setup.processes; ++i) children.push_back(start(setup, daemon.path(), i));
  if (setup.during) setup.during(daemon);
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the test failed inside the tenant";
  }
  if (setup.after) setup.after(daemon);
}

Cuda::Cuda() {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) abort();
#define DIVVY_CU(symbol, base, since, kind, arguments) \
  symbol = reinterpret_cast<symbol##_fn>(dlsym(library, #symbol));
#include "abi/cuda_functions.inc"
}

CUcontext Cuda::begin(int device) const {
  CUcontext context = nullptr;
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  return context;
}

uint64_t Cuda::free_bytes() const {
  size_t free = 0;
  EXPECT_EQ(cuMemGetInfo_v2(&free, nullptr), CUDA_SUCCESS);
  return free;
}

uint64_t Cuda::total_bytes() const {
  size_t total = 0;
  EXPECT_EQ(cuMemGetInfo_v2(nullptr, &total), CUDA_SUCCESS);
  return total;
}

Nvml::Nvml() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) abort();
#define DIVVY_NVML(symbol, arguments) \
  symbol = reinterpret_cast<symbol##_fn>(dlsym(library, #symbol));
#include "abi/nvml_functions.inc"
}

uint64_t Nvml::own_bytes(unsigned index) const {
  nvmlDevice_t device = nullptr;
  unsigned count = 16;
  nvmlProcessInfo_t list[16];
  EXPECT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, list), NVML_SUCCESS);
  for (unsigned i = 0; i < count; ++i) {
    if (list[i].pid == static_cast<unsigned>(getpid())) return list[i].usedGpuMemory;
  }
  return 0;
}

}  // namespace divvy::shim
