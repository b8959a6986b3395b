// The simulated NVML: memory, and who uses it.
#include <algorithm>
#include <bit>

#include "simgpu/nvml_call.h"
#include "simgpu/nvml_processes.h"
#include "simgpu/readings.h"

namespace divvy::simgpu {

std::vector<RunningProcess> running_processes(Device& device) {
  device.state.reap();
  Shared& shared = device.state.shared();
  const uint64_t now = now_ns(shared);
  std::vector<RunningProcess> list;
  Locked lock(shared.table_lock);
  for (uint32_t i = 0; i < shared.slot_high; ++i) {
    const ProcessSlot& slot = shared.slot[i];
    const ProcessOnGpu& on = slot.gpu[device.index];
    if (slot.state.load() != static_cast<uint32_t>(SlotState::kClaimed)) continue;
    if (on.contexts.load() == 0) continue;
    list.push_back({.pid = static_cast<unsigned int>(device.state.pid_of(static_cast<int>(i))),
                    .used_bytes = on.used_bytes.load(),
                    .peak_bytes = on.peak_bytes.load(),
                    .consumed_ns = on.consumed_ns.load(),
                    .started_ns = slot.started_ns,
                    .busy_permille = busy_permille(on.buckets, now, kWarmthBuckets)});
  }
  return list;
}

namespace {

constexpr unsigned int kNoInstance = 0xFFFFFFFF;

void write(nvmlProcessInfo_v1_t& to, const RunningProcess& from) {
  to = {.pid = from.pid, .usedGpuMemory = from.used_bytes};
}

void write(nvmlProcessInfo_v2_t& to, const RunningProcess& from) {
  to = {.pid = from.pid,
        .usedGpuMemory = from.used_bytes,
        .gpuInstanceId = kNoInstance,
        .computeInstanceId = kNoInstance};
}

void write(nvmlProcessDetail_v1_t& to, const RunningProcess& from) {
  to = {.pid = from.pid,
        .usedGpuMemory = from.used_bytes,
        .gpuInstanceId = kNoInstance,
        .computeInstanceId = kNoInstance,
        .usedGpuCcProtectedMemory = 0};
}

// NVML's way with lists: the caller says how many fit, and is told how many there are.
template <typename Entry>
nvmlReturn_t give_list(const std::vector<RunningProcess>& from, unsigned int* count, Entry* to) {
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(from.size());
  if (room < from.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (size_t i = 0; i < from.size(); ++i) write(to[i], from[i]);
  return NVML_SUCCESS;
}

template <typename Entry>
nvmlReturn_t compute_processes(nvmlDevice_t device, unsigned int* count, Entry* infos) {
  return on_device(device, QueryClass::kProcesses, {count}, [&](Device& called) {
    if (*count > 0 && infos == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    return give_list(running_processes(called), count, infos);
  });
}

// Nothing draws on these GPUs and no MPS server runs.
nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int* count, const void* infos) {
  return on_device(device, QueryClass::kProcesses, {count}, [&](Device&) {
    if (*count > 0 && infos == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
  });
}

uint64_t used_now(Device& called) {
  called.state.reap();
  const uint64_t most = called.spec().memory_bytes - called.spec().reserved_bytes;
  return std::min(called.state.used_bytes(called.index), most);
}

}  // namespace
}  // namespace divvy::simgpu

using divvy::simgpu::Device;
using divvy::simgpu::on_device;
using divvy::simgpu::QueryClass;
namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return on_device(device, QueryClass::kMemory, {memory}, [&](Device& called) {
    // The first version has no place for the driver's reserve and counts it as used.
    memory->total = called.spec().memory_bytes;
    memory->used = called.spec().reserved_bytes + sim::used_now(called);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  return on_device(device, QueryClass::kMemory, {memory}, [&](Device& called) {
    // Not the mismatch that newer versioned calls report; driver 580 answers so.
    if (memory->version != nvmlMemory_v2) return NVML_ERROR_FUNCTION_NOT_FOUND;
    memory->total = called.spec().memory_bytes;
    memory->reserved = called.spec().reserved_bytes;
    memory->used = sim::used_now(called);
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device,
                                                     nvmlBAR1Memory_t* memory) {
  return on_device(device, QueryClass::kMemory, {memory}, [&](Device& called) {
    // Large cards map all of their memory; Turing has a fixed small window.
    const bool small = called.spec().architecture == NVML_DEVICE_ARCH_TURING;
    memory->bar1Total = small ? uint64_t{256} << 20U : std::bit_ceil(called.spec().memory_bytes);
    memory->bar1Used = uint64_t{1} << 20U;
    memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return NVML_SUCCESS;
  });
}

// Limits of control groups came with driver r615; the one that is simulated is older and says that
// it does not know the function.
SIMGPU_NVML nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device,
                                                      nvmlSetMemoryLimits_v1_t* limits) {
  return on_device(device, sim::kNoClass, {limits},
                   [](Device&) { return NVML_ERROR_FUNCTION_NOT_FOUND; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device,
                                                      nvmlGetMemoryLimits_v1_t* limits) {
  return on_device(device, sim::kNoClass, {limits},
                   [](Device&) { return NVML_ERROR_FUNCTION_NOT_FOUND; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device,
                                                              unsigned int* count,
                                                              nvmlProcessInfo_v1_t* infos) {
  return sim::compute_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
                                                                 unsigned int* count,
                                                                 nvmlProcessInfo_v2_t* infos) {
  return sim::compute_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                                 unsigned int* count,
                                                                 nvmlProcessInfo_t* infos) {
  return sim::compute_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device,
                                                               unsigned int* count,
                                                               nvmlProcessInfo_v1_t* infos) {
  return sim::no_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device,
                                                                  unsigned int* count,
                                                                  nvmlProcessInfo_v2_t* infos) {
  return sim::no_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device,
                                                                  unsigned int* count,
                                                                  nvmlProcessInfo_t* infos) {
  return sim::no_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device,
                                                                 unsigned int* count,
                                                                 nvmlProcessInfo_v1_t* infos) {
  return sim::no_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device,
                                                                    unsigned int* count,
                                                                    nvmlProcessInfo_v2_t* infos) {
  return sim::no_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device,
                                                                    unsigned int* count,
                                                                    nvmlProcessInfo_t* infos) {
  return sim::no_processes(device, count, infos);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                               nvmlProcessDetailList_t* list) {
  return on_device(device, QueryClass::kProcesses, {list}, [&](Device& called) {
    if (called.spec().architecture < NVML_DEVICE_ARCH_HOPPER) return NVML_ERROR_NOT_SUPPORTED;
    if (list->version != nvmlProcessDetailList_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    constexpr unsigned int kCompute = 0;
    constexpr unsigned int kLastMode = 2;  // graphics is 1, MPS is 2
    if (list->mode > kLastMode) return NVML_ERROR_INVALID_ARGUMENT;
    if (list->numProcArrayEntries > 0 && list->procArray == nullptr) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    std::vector<sim::RunningProcess> running;
    if (list->mode == kCompute) running = sim::running_processes(called);
    return sim::give_list(running, &list->numProcArrayEntries, list->procArray);
  });
}
