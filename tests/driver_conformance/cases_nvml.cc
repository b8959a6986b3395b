// NVML: finding devices, memory, processes, and how it agrees with the driver.

#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "gpu.h"

namespace divvy::conformance {
namespace {

nvmlDevice_t first_device(Check& t) {
  nvmlDevice_t handle = nullptr;
  t.nvml_code("nvmlInit_v2()", nvml.nvmlInit_v2(), NVML_SUCCESS);
  t.nvml_code("nvmlDeviceGetHandleByIndex_v2(0)", nvml.nvmlDeviceGetHandleByIndex_v2(0, &handle),
              NVML_SUCCESS);
  return handle;
}

}  // namespace

CASE(nvml, calls_before_init_are_refused) {
  unsigned count = 0;
  nvmlDevice_t handle = nullptr;
  NVML_CODE(NVML_ERROR_UNINITIALIZED, nvml.nvmlDeviceGetCount_v2(&count));
  NVML_CODE(NVML_ERROR_UNINITIALIZED, nvml.nvmlDeviceGetHandleByIndex_v2(0, &handle));
  NVML_CODE(NVML_ERROR_UNINITIALIZED, nvml.nvmlShutdown());
}

CASE(nvml, init_counts) {
  unsigned count = 0;
  NVML_OK(nvml.nvmlInit_v2());
  NVML_OK(nvml.nvmlInit_v2());
  NVML_OK(nvml.nvmlShutdown());
  NVML_OK(nvml.nvmlDeviceGetCount_v2(&count));
  NVML_OK(nvml.nvmlShutdown());
  NVML_CODE(NVML_ERROR_UNINITIALIZED, nvml.nvmlDeviceGetCount_v2(&count));
}

CASE(nvml, devices_are_found_in_every_way) {
  nvmlDevice_t handle = first_device(t);
  nvmlDevice_t found = nullptr;
  std::array<char, NVML_DEVICE_UUID_V2_BUFFER_SIZE> uuid{};
  nvmlPciInfo_t pci{};
  NVML_OK(nvml.nvmlDeviceGetUUID(handle, uuid.data(), uuid.size()));
  NVML_OK(nvml.nvmlDeviceGetHandleByUUID(uuid.data(), &found));
  TRUE_(found == handle);
  EQUAL(uint64_t{40}, std::strlen(uuid.data()));
  NVML_OK(nvml.nvmlDeviceGetPciInfo_v3(handle, &pci));
  NVML_OK(nvml.nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &found));
  TRUE_(found == handle);
  EQUAL(uint64_t{16}, std::strlen(pci.busId));
  unsigned index = 99;
  NVML_OK(nvml.nvmlDeviceGetIndex(handle, &index));
  EQUAL(uint64_t{0}, uint64_t{index});
  unsigned minor = 99;
  NVML_OK(nvml.nvmlDeviceGetMinorNumber(handle, &minor));
  t.note("minor", uint64_t{minor});
}

CASE(nvml, wrong_questions_are_refused) {
  nvmlDevice_t handle = first_device(t);
  nvmlDevice_t found = nullptr;
  unsigned count = 0;
  NVML_OK(nvml.nvmlDeviceGetCount_v2(&count));
  NVML_CODE(NVML_ERROR_INVALID_ARGUMENT, nvml.nvmlDeviceGetHandleByIndex_v2(count, &found));
  NVML_CODE(NVML_ERROR_INVALID_ARGUMENT, nvml.nvmlDeviceGetHandleByIndex_v2(0, nullptr));
  NVML_CODE(NVML_ERROR_INVALID_ARGUMENT, nvml.nvmlDeviceGetCount_v2(nullptr));
  t.recorded("unknown_uuid",
             nvml.nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000", &found));
  t.recorded("not_a_uuid", nvml.nvmlDeviceGetHandleByUUID("cheese", &found));
  t.recorded("unknown_pci", nvml.nvmlDeviceGetHandleByPciBusId_v2("00000000:FE:1F.0", &found));
  std::array<char, 8> small{};
  NVML_CODE(NVML_ERROR_INSUFFICIENT_SIZE,
            nvml.nvmlDeviceGetUUID(handle, small.data(), small.size()));
  NVML_CODE(NVML_ERROR_INSUFFICIENT_SIZE, nvml.nvmlDeviceGetName(handle, small.data(), 4));
  NVML_CODE(NVML_ERROR_INVALID_ARGUMENT, nvml.nvmlDeviceGetMemoryInfo(handle, nullptr));
  t.recorded("null_device", nvml.nvmlDeviceGetName(nullptr, small.data(), 8));
}

CASE(nvml, agrees_with_the_driver_about_identity) {
  nvmlDevice_t handle = first_device(t);
  if (!start_gpu(t)) return;
  std::array<char, 96> of_nvml{};
  std::array<char, 96> of_driver{};
  NVML_OK(nvml.nvmlDeviceGetName(handle, of_nvml.data(), 96));
  OK(cu.cuDeviceGetName(of_driver.data(), 96, device));
  EQUAL(std::string_view(of_driver.data()), std::string_view(of_nvml.data()));
  int major = 0;
  int minor = 0;
  NVML_OK(nvml.nvmlDeviceGetCudaComputeCapability(handle, &major, &minor));
  EQUAL(static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)),
        static_cast<uint64_t>(major));
  unsigned cores = 0;
  NVML_OK(nvml.nvmlDeviceGetNumGpuCores(handle, &cores));
  EQUAL(uint64_t{0}, uint64_t{cores} % static_cast<uint64_t>(
                                           attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)));
  int cuda = 0;
  int version = 0;
  NVML_OK(nvml.nvmlSystemGetCudaDriverVersion_v2(&cuda));
  OK(cu.cuDriverGetVersion(&version));
  EQUAL(static_cast<uint64_t>(version), static_cast<uint64_t>(cuda));
  std::array<char, 80> text{};
  NVML_OK(nvml.nvmlSystemGetDriverVersion(text.data(), 80));
  t.note("driver", std::string_view(text.data()));
}

CASE(nvml, memory_versions_agree) {
  nvmlDevice_t handle = first_device(t);
  nvmlMemory_t first{};
  nvmlMemory_v2_t second{};
  NVML_OK(nvml.nvmlDeviceGetMemoryInfo(handle, &first));
  second.version = nvmlMemory_v2;
  NVML_OK(nvml.nvmlDeviceGetMemoryInfo_v2(handle, &second));
  EQUAL(uint64_t{first.total}, uint64_t{second.total});
  EQUAL(uint64_t{first.total}, uint64_t{first.free + first.used});
  EQUAL(uint64_t{second.total}, uint64_t{second.free + second.used + second.reserved});
  EQUAL(uint64_t{first.used}, uint64_t{second.used + second.reserved});
  second.version = 7;
  NVML_CODE(NVML_ERROR_FUNCTION_NOT_FOUND, nvml.nvmlDeviceGetMemoryInfo_v2(handle, &second));
  t.note("total", uint64_t{first.total});
  t.note("used_when_idle", uint64_t{first.used});
}

CASE(nvml, memory_agrees_with_the_driver) {
  nvmlDevice_t handle = first_device(t);
  if (!start_gpu(t)) return;
  nvmlMemory_t before{};
  nvmlMemory_t after{};
  size_t free = 0;
  size_t total = 0;
  NVML_OK(nvml.nvmlDeviceGetMemoryInfo(handle, &before));
  OK(cu.cuMemGetInfo_v2(&free, &total));
  TRUE_(total <= before.total);
  t.recorded("driver_shows_less_than_nvml", uint64_t{before.total - total});
  t.note("free_of_nvml_minus_free_of_driver",
         std::to_string(static_cast<int64_t>(before.free) - static_cast<int64_t>(free)));
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 256 * kMiB));
  NVML_OK(nvml.nvmlDeviceGetMemoryInfo(handle, &after));
  EQUAL(256 * kMiB, uint64_t{after.used - before.used});
}

CASE(nvml, a_context_costs_memory) {
  nvmlDevice_t handle = first_device(t);
  nvmlMemory_t before{};
  nvmlMemory_t after{};
  NVML_OK(nvml.nvmlDeviceGetMemoryInfo(handle, &before));
  if (!start_gpu(t)) return;
  NVML_OK(nvml.nvmlDeviceGetMemoryInfo(handle, &after));
  TRUE_(after.used > before.used);
  t.note("context_cost", uint64_t{after.used - before.used});
}

CASE(nvml, own_process_is_listed) {
  nvmlDevice_t handle = first_device(t);
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 256 * kMiB));
  unsigned count = 0;
  const nvmlReturn_t asked = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, nullptr);
  t.recorded("asking_how_many", asked);
  TRUE_(count >= 1);
  count = 64;
  std::vector<nvmlProcessInfo_t> processes(count);
  NVML_OK(nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, processes.data()));
  bool listed = false;
  for (unsigned i = 0; i < count; ++i) {
    if (processes[i].pid != static_cast<unsigned>(getpid())) continue;
    listed = true;
    TRUE_(processes[i].usedGpuMemory >= 256 * kMiB);
    t.note("used", uint64_t{processes[i].usedGpuMemory});
    EQUAL(uint64_t{0xffffffffU}, uint64_t{processes[i].gpuInstanceId});
  }
  // Inside a container the pids of another name space are shown, so this can only be written down.
  t.note("own_pid_is_listed", listed ? "yes" : "no");
  t.note("processes", uint64_t{count});
}

CASE(nvml, telemetry_answers) {
  nvmlDevice_t handle = first_device(t);
  unsigned value = 0;
  nvmlUtilization_t utilization{};
  NVML_OK(nvml.nvmlDeviceGetTemperature(handle, NVML_TEMPERATURE_GPU, &value));
  TRUE_(value > 0 && value < 120);
  NVML_OK(nvml.nvmlDeviceGetPowerUsage(handle, &value));
  TRUE_(value > 1000);
  NVML_OK(nvml.nvmlDeviceGetUtilizationRates(handle, &utilization));
  TRUE_(utilization.gpu <= 100 && utilization.memory <= 100);
  t.recorded("fan", nvml.nvmlDeviceGetFanSpeed(handle, &value));
  unsigned current = 9;
  unsigned pending = 9;
  t.recorded("mig", nvml.nvmlDeviceGetMigMode(handle, &current, &pending));
  nvmlEnableState_t ecc = NVML_FEATURE_DISABLED;
  nvmlEnableState_t ecc_pending = NVML_FEATURE_DISABLED;
  t.recorded("ecc", nvml.nvmlDeviceGetEccMode(handle, &ecc, &ecc_pending));
  unsigned long long count = 99;
  t.recorded("ecc_errors",
             nvml.nvmlDeviceGetTotalEccErrors(handle, NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                              NVML_VOLATILE_ECC, &count));
  t.recorded("energy", nvml.nvmlDeviceGetTotalEnergyConsumption(handle, &count));
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned remap_pending = 0;
  unsigned failed = 0;
  t.recorded("remapped_rows", nvml.nvmlDeviceGetRemappedRows(handle, &corrected, &uncorrected,
                                                             &remap_pending, &failed));
  t.recorded("display", nvml.nvmlDeviceGetDisplayActive(handle, &ecc));
  t.recorded("numa_node", nvml.nvmlDeviceGetNumaNodeId(handle, &value));
  t.recorded("replays", nvml.nvmlDeviceGetPcieReplayCounter(handle, &value));
  nvmlGpmSupport_t support{};
  support.version = 1;
  t.recorded("gpm", nvml.nvmlGpmQueryDeviceSupport(handle, &support));
}

CASE(nvml, events_time_out) {
  nvmlDevice_t handle = first_device(t);
  nvmlEventSet_t set = nullptr;
  nvmlEventData_t data{};
  NVML_OK(nvml.nvmlEventSetCreate(&set));
  constexpr unsigned long long kXidCriticalError = 0x8;
  NVML_OK(nvml.nvmlDeviceRegisterEvents(handle, kXidCriticalError, set));
  NVML_CODE(NVML_ERROR_TIMEOUT, nvml.nvmlEventSetWait_v2(set, &data, 10));
  NVML_OK(nvml.nvmlEventSetFree(set));
}

CASE(nvml, error_texts) {
  TRUE_(nvml.nvmlErrorString != nullptr);
  if (nvml.nvmlErrorString == nullptr) return;
  for (const nvmlReturn_t code :
       {NVML_SUCCESS, NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT,
        NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_FOUND, NVML_ERROR_GPU_IS_LOST}) {
    const char* text = nvml.nvmlErrorString(code);
    t.recorded("text_" + std::to_string(code), std::string_view(text == nullptr ? "" : text));
  }
}

CASE(nvml, topology_of_one_device_with_itself) {
  nvmlDevice_t handle = first_device(t);
  nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_SYSTEM;
  t.recorded("common_ancestor", nvml.nvmlDeviceGetTopologyCommonAncestor(handle, handle, &level));
  nvmlEnableState_t active = NVML_FEATURE_DISABLED;
  t.note("nvlink_0", uint64_t{nvml.nvmlDeviceGetNvLinkState(handle, 0, &active)});
  t.recorded("nvlink_99", nvml.nvmlDeviceGetNvLinkState(handle, 99, &active));
}

}  // namespace divvy::conformance
