// NVML: memory and utilisation of a device, as those of the slice.
//
// Memory is the slice's limit and what the tenant's processes use, the same figures that
// cuMemGetInfo gives. Utilisation is relative to the share: 100 % is a tenant that uses all it was
// granted, and one that is given more while others are idle shows no more than that.
#include "shim/charge.h"
#include "shim/export.h"
#include "shim/nvml_real.h"
#include "shim/nvml_view.h"
#include "shim/pools.h"

using divvy::shim::g_nvml;
using divvy::shim::in_tenant;
using divvy::shim::slice_memory;
using divvy::shim::slice_of_handle;
using divvy::shim::SliceMemory;

namespace {

bool memory_of(nvmlDevice_t device, SliceMemory* memory) {
  if (!in_tenant()) return false;
  const int slice = slice_of_handle(device);
  // CUDA need not be there in a process that only watches.
  divvy::shim::pools_refresh(slice);
  return slice_memory(slice, memory);
}

// Percent of its share that the slice used of late. False when the device is none of the tenant's.
bool utilisation_of(nvmlDevice_t device, unsigned int* percent) {
  if (!in_tenant()) return false;
  const int slice = slice_of_handle(device);
  const divvy::wire::ControlPage* page = divvy::shim::control();
  if (slice < 0 || page == nullptr) return false;
  const divvy::wire::ControlGpu& gpu = page->gpu[slice];
  const uint32_t share = gpu.share.load(std::memory_order_relaxed);
  const uint32_t used = gpu.used_share.load(std::memory_order_relaxed);
  const uint64_t of_share = share != 0 ? uint64_t{used} * 100 / share : uint64_t{used} / 10;
  *percent = of_share < 100 ? static_cast<unsigned int>(of_share) : 100;
  return true;
}

}  // namespace

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetMemoryInfo);
  const nvmlReturn_t result = g_nvml.nvmlDeviceGetMemoryInfo(device, out);
  SliceMemory memory;
  if (result != NVML_SUCCESS || !memory_of(device, &memory)) return result;
  out->total = memory.total;
  out->used = memory.used;
  out->free = memory.free;
  return result;
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetMemoryInfo_v2);
  const nvmlReturn_t result = g_nvml.nvmlDeviceGetMemoryInfo_v2(device, out);
  SliceMemory memory;
  if (result != NVML_SUCCESS || !memory_of(device, &memory)) return result;
  out->total = memory.total;
  out->reserved = 0;
  out->used = memory.used;
  out->free = memory.free;
  return result;
}

// The window that the host sees the memory through; how much of it is whose NVML does not tell.
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetBAR1MemoryInfo);
  const nvmlReturn_t result = g_nvml.nvmlDeviceGetBAR1MemoryInfo(device, out);
  SliceMemory memory;
  if (result != NVML_SUCCESS || !memory_of(device, &memory)) return result;
  if (out->bar1Total > memory.total) out->bar1Total = memory.total;
  if (out->bar1Used > memory.used) out->bar1Used = memory.used;
  if (out->bar1Used > out->bar1Total) out->bar1Used = out->bar1Total;
  out->bar1Free = out->bar1Total - out->bar1Used;
  return result;
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
                                                        nvmlUtilization_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetUtilizationRates);
  const nvmlReturn_t result = g_nvml.nvmlDeviceGetUtilizationRates(device, out);
  unsigned int percent = 0;
  if (result != NVML_SUCCESS || !utilisation_of(device, &percent)) return result;
  out->gpu = percent;
  // Of the memory's own utilisation nobody knows whose it was, only that it goes with the GPU's.
  if (out->memory > percent) out->memory = percent;
  return result;
}

// The past of the whole GPU would tell about others: each sample shows no more than the slice's
// present utilisation.
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
                                               unsigned long long since, nvmlValueType_t* value,
                                               unsigned int* count, nvmlSample_t* samples) {
  DIVVY_NEED_NVML(nvmlDeviceGetSamples);
  const nvmlReturn_t result =
      g_nvml.nvmlDeviceGetSamples(device, type, since, value, count, samples);
  if (result != NVML_SUCCESS || samples == nullptr || count == nullptr ||
      (type != NVML_GPU_UTILIZATION_SAMPLES && type != NVML_MEMORY_UTILIZATION_SAMPLES)) {
    return result;
  }
  unsigned int percent = 0;
  if (!utilisation_of(device, &percent)) return result;
  for (unsigned int i = 0; i < *count; ++i) {
    if (samples[i].sampleValue.uiVal > percent) samples[i].sampleValue.uiVal = percent;
  }
  return result;
}
