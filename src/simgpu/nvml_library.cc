// The simulated NVML: starting and ending it, finding devices, and the system as a whole.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "simgpu/config.h"
#include "simgpu/fault.h"
#include "simgpu/nvml_call.h"

namespace divvy::simgpu {
namespace {

struct Library {
  std::mutex mutex;
  int users = 0;  // nvmlInit calls that were not yet answered by nvmlShutdown
  SharedState* mapped = nullptr;
  std::vector<SharedState*> former;  // kept, since a call may still be inside
  dev_t file_device = 0;
  ino_t file_inode = 0;
  std::atomic<SharedState*> in_use{nullptr};
  std::array<nvmlDevice_st, kMaxGpus> handles{};

  Library() {
    for (size_t i = 0; i < handles.size(); ++i) handles[i].index = static_cast<int>(i);
  }
};

// Never destroyed: other threads may still be inside a call when the process ends.
Library& library() {
  static Library& instance = *new Library();
  return instance;
}

// Whether the state that is mapped is still the one that the environment names. Programs that
// start and end NVML every second must not map a new copy each time.
bool mapping_is_current(const Library& lib) {
  if (lib.mapped == nullptr || lib.mapped->path() != state_path(process_environment())) {
    return false;
  }
  struct stat info{};
  return stat(lib.mapped->path().c_str(), &info) == 0 && info.st_dev == lib.file_device &&
         info.st_ino == lib.file_inode;
}

nvmlReturn_t map_state(Library& lib) {
  if (mapping_is_current(lib)) return NVML_SUCCESS;
  std::string error;
  SharedState* state = SharedState::open(&error);
  if (state == nullptr) {
    // NVML's codes cannot carry the reason, and a wrong configuration is the user's to mend.
    fprintf(stderr, "simulated GPUs: %s\n", error.c_str());
    return NVML_ERROR_DRIVER_NOT_LOADED;
  }
  struct stat info{};
  if (stat(state->path().c_str(), &info) == 0) {
    lib.file_device = info.st_dev;
    lib.file_inode = info.st_ino;
  }
  if (lib.mapped != nullptr) lib.former.push_back(lib.mapped);
  lib.mapped = state;
  return NVML_SUCCESS;
}

nvmlReturn_t init() {
  Library& lib = library();
  const std::lock_guard<std::mutex> lock(lib.mutex);
  if (lib.users == 0) {
    if (const nvmlReturn_t result = map_state(lib); result != NVML_SUCCESS) return result;
    lib.in_use.store(lib.mapped);
  }
  ++lib.users;
  return NVML_SUCCESS;
}

// Finds the one GPU for which `matches(spec)` holds.
template <typename Matches>
nvmlReturn_t find_device(const void* key, nvmlDevice_t* device, Matches&& matches) {
  SharedState* state = library_state();
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (key == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < state->gpu_count(); ++i) {
    if (!matches(state->gpu(i).spec)) continue;
    const nvmlReturn_t result = gpu_answers(state->gpu(i), kNoClass);
    if (result == NVML_SUCCESS) *device = handle_of(i);
    return result;
  }
  return NVML_ERROR_NOT_FOUND;
}

// "18:00.0", "0000:18:00.0" and "00000000:18:00.0" all name the same place.
bool same_pci_address(const char* text, const char* address) {
  const auto parse = [](const char* from, std::array<unsigned, 3>& place) {
    int used = 0;
    if (sscanf(from, "%x:%x:%x%n", place.data(), &place[1], &place[2], &used) == 3) {
      return from[used] == 0 || strcmp(from + used, ".0") == 0;
    }
    place[0] = 0;
    return sscanf(from, "%x:%x%n", &place[1], &place[2], &used) == 2 &&
           (from[used] == 0 || strcmp(from + used, ".0") == 0);
  };
  std::array<unsigned, 3> wanted{};
  std::array<unsigned, 3> present{};
  return parse(text, wanted) && parse(address, present) && wanted == present;
}

}  // namespace

SharedState* library_state() { return library().in_use.load(); }

SharedState* state_without_init() {
  if (SharedState* state = library_state(); state != nullptr) return state;
  Library& lib = library();
  const std::lock_guard<std::mutex> lock(lib.mutex);
  return map_state(lib) == NVML_SUCCESS ? lib.mapped : nullptr;
}

nvmlDevice_t handle_of(int index) { return &library().handles[static_cast<size_t>(index)]; }

int index_of(nvmlDevice_t device) {
  for (nvmlDevice_st& handle : library().handles) {
    if (&handle == device) return handle.index;
  }
  return -1;
}

nvmlReturn_t gpu_answers(Gpu& gpu, QueryClass queries) {
  wait_while_hung(gpu);
  if (gpu.faults.lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
  if (queries != kNoClass) {
    const uint32_t failing = gpu.faults.failing_queries.load();
    if ((failing >> static_cast<uint32_t>(queries) & 1U) != 0) {
      return static_cast<nvmlReturn_t>(gpu.faults.failing_with.load());
    }
  }
  return NVML_SUCCESS;
}

nvmlReturn_t give_text(std::string_view text, char* buffer, unsigned int length) {
  if (buffer == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (length < text.size() + 1) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t may_change() { return geteuid() == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION; }

}  // namespace divvy::simgpu

namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlInit() { return sim::init(); }
SIMGPU_NVML nvmlReturn_t nvmlInit_v2() { return sim::init(); }
SIMGPU_NVML nvmlReturn_t nvmlInitWithFlags(unsigned int /*flags*/) { return sim::init(); }

SIMGPU_NVML nvmlReturn_t nvmlShutdown() {
  sim::Library& lib = sim::library();
  const std::lock_guard<std::mutex> lock(lib.mutex);
  if (lib.users == 0) return NVML_ERROR_UNINITIALIZED;
  if (--lib.users == 0) lib.in_use.store(nullptr);
  return NVML_SUCCESS;
}

SIMGPU_NVML nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  sim::SharedState* state = sim::library_state();
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;
  return sim::give_text(state->shared().driver_version, version, length);
}

SIMGPU_NVML nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  sim::SharedState* state = sim::library_state();
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::string text =
      std::to_string(state->shared().cuda_version / 1000) + "." + state->shared().driver_version;
  return sim::give_text(text, version, length);
}

SIMGPU_NVML nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  sim::SharedState* state = sim::state_without_init();
  if (state == nullptr) return NVML_ERROR_LIBRARY_NOT_FOUND;
  *version = static_cast<int>(state->shared().cuda_version);
  return NVML_SUCCESS;
}

SIMGPU_NVML nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

SIMGPU_NVML nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name,
                                                  unsigned int length) {
  if (sim::library_state() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (name == nullptr || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
  const std::string path = "/proc/" + std::to_string(pid) + "/cmdline";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return NVML_ERROR_NOT_FOUND;
  // Only the first word is asked for; a longer one is cut to the buffer.
  const ssize_t got = read(file, name, length - 1);
  close(file);
  if (got < 0) return NVML_ERROR_UNKNOWN;
  name[got] = 0;
  return NVML_SUCCESS;
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  sim::SharedState* state = sim::library_state();
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned int>(state->gpu_count());
  return NVML_SUCCESS;
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) {
  return nvmlDeviceGetCount_v2(count);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  sim::SharedState* state = sim::library_state();
  if (state == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (device == nullptr || index >= static_cast<unsigned int>(state->gpu_count())) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const int number = static_cast<int>(index);
  const nvmlReturn_t result = sim::gpu_answers(state->gpu(number), sim::kNoClass);
  if (result == NVML_SUCCESS) *device = sim::handle_of(number);
  return result;
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return sim::find_device(
      uuid, device, [&](const sim::GpuSpec& spec) { return strcasecmp(spec.uuid, uuid) == 0; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* device) {
  return sim::find_device(
      serial, device, [&](const sim::GpuSpec& spec) { return strcmp(spec.serial, serial) == 0; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* address,
                                                          nvmlDevice_t* device) {
  return sim::find_device(address, device, [&](const sim::GpuSpec& spec) {
    return sim::same_pci_address(address, spec.pci);
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* address, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(address, device);
}

SIMGPU_NVML const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED:
      return "Already Initialized";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER:
      return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT:
      return "Timeout";
    case NVML_ERROR_IRQ_ISSUE:
      return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND:
      return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM:
      return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED:
      return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM:
      return "GPU access blocked by the operating system";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "Driver/library version mismatch";
    case NVML_ERROR_IN_USE:
      return "In use by another client";
    case NVML_ERROR_MEMORY:
      return "Insufficient Memory";
    case NVML_ERROR_NO_DATA:
      return "No data";
    case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED:
      return "vGPU ECC Not Supported";
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return "Insufficient Resources";
    case NVML_ERROR_FREQ_NOT_SUPPORTED:
      return "Frequency Not Supported";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return "Argument Version Mismatch";
    case NVML_ERROR_DEPRECATED:
      return "Deprecated";
    case NVML_ERROR_NOT_READY:
      return "Not Ready";
    case NVML_ERROR_GPU_NOT_FOUND:
      return "GPU Not Found";
    case NVML_ERROR_INVALID_STATE:
      return "Invalid State";
    case NVML_ERROR_RESET_TYPE_NOT_SUPPORTED:
      return "Reset Type Not Supported";
    case NVML_ERROR_UNKNOWN:
      break;
  }
  return "Unknown Error";
}
