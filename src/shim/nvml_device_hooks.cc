// NVML: becoming a tenant's process, and finding devices. Only granted GPUs are found, and they are
// numbered as slices are.
#include "shim/export.h"
#include "shim/nvml_real.h"
#include "shim/nvml_view.h"

using divvy::shim::g_nvml;
using divvy::shim::in_tenant;
using divvy::shim::slice_of_handle;
using divvy::shim::Standing;
using divvy::shim::visible_slices;

namespace {

template <typename Real>
nvmlReturn_t initialise(Real real) {
  switch (divvy::shim::join()) {
    case Standing::kRefused:
      return NVML_ERROR_NO_PERMISSION;
    case Standing::kUnreachable:
      return NVML_ERROR_TIMEOUT;
    default:
      return real();
  }
}

template <typename Real>
nvmlReturn_t count(unsigned int* out, Real real) {
  const nvmlReturn_t result = real(out);
  if (result == NVML_SUCCESS && in_tenant()) *out = visible_slices();
  return result;
}

template <typename Real>
nvmlReturn_t by_index(unsigned int index, nvmlDevice_t* out, Real real) {
  if (!in_tenant() || out == nullptr) return real(index, out);
  if (index >= visible_slices()) return NVML_ERROR_INVALID_ARGUMENT;
  return divvy::shim::handle_of_slice(static_cast<int>(index), out);
}

template <typename Name, typename Real>
nvmlReturn_t by_name(Name name, nvmlDevice_t* out, Real real) {
  const nvmlReturn_t result = real(name, out);
  if (result != NVML_SUCCESS || !in_tenant() || slice_of_handle(*out) >= 0) return result;
  *out = nullptr;
  return NVML_ERROR_NOT_FOUND;
}

}  // namespace

DIVVY_EXPORT nvmlReturn_t nvmlInit() {
  DIVVY_NEED_NVML(nvmlInit);
  return initialise(g_nvml.nvmlInit);
}
DIVVY_EXPORT nvmlReturn_t nvmlInit_v2() {
  DIVVY_NEED_NVML(nvmlInit_v2);
  return initialise(g_nvml.nvmlInit_v2);
}
DIVVY_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  DIVVY_NEED_NVML(nvmlInitWithFlags);
  return initialise([&] { return g_nvml.nvmlInitWithFlags(flags); });
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetCount);
  return count(out, g_nvml.nvmlDeviceGetCount);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetCount_v2);
  return count(out, g_nvml.nvmlDeviceGetCount_v2);
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetHandleByIndex);
  return by_index(index, out, g_nvml.nvmlDeviceGetHandleByIndex);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetHandleByIndex_v2);
  return by_index(index, out, g_nvml.nvmlDeviceGetHandleByIndex_v2);
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetHandleByUUID);
  return by_name(uuid, out, g_nvml.nvmlDeviceGetHandleByUUID);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const void* uuid, nvmlDevice_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetHandleByUUIDV);
  return by_name(uuid, out, g_nvml.nvmlDeviceGetHandleByUUIDV);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetHandleBySerial);
  return by_name(serial, out, g_nvml.nvmlDeviceGetHandleBySerial);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* address, nvmlDevice_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetHandleByPciBusId);
  return by_name(address, out, g_nvml.nvmlDeviceGetHandleByPciBusId);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* address, nvmlDevice_t* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetHandleByPciBusId_v2);
  return by_name(address, out, g_nvml.nvmlDeviceGetHandleByPciBusId_v2);
}

DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* out) {
  DIVVY_NEED_NVML(nvmlDeviceGetIndex);
  const nvmlReturn_t result = g_nvml.nvmlDeviceGetIndex(device, out);
  if (result != NVML_SUCCESS || !in_tenant()) return result;
  const int slice = slice_of_handle(device);
  if (slice >= 0) *out = static_cast<unsigned int>(slice);
  return result;
}

// With no room the caller only wants the number, and the number is of granted GPUs too.
DIVVY_EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device,
                                                           nvmlGpuTopologyLevel_t level,
                                                           unsigned int* count,
                                                           nvmlDevice_t* devices) {
  DIVVY_NEED_NVML(nvmlDeviceGetTopologyNearestGpus);
  constexpr unsigned int kMost = 64;
  nvmlDevice_t all[kMost];
  if (!in_tenant() || count == nullptr) {
    return g_nvml.nvmlDeviceGetTopologyNearestGpus(device, level, count, devices);
  }
  unsigned int found = kMost;
  const nvmlReturn_t result = g_nvml.nvmlDeviceGetTopologyNearestGpus(device, level, &found, all);
  if (result != NVML_SUCCESS) return result;
  unsigned int granted = 0;
  for (unsigned int i = 0; i < found && i < kMost; ++i) {
    if (slice_of_handle(all[i]) < 0) continue;
    if (devices != nullptr && granted < *count) devices[granted] = all[i];
    ++granted;
  }
  *count = devices != nullptr && granted > *count ? *count : granted;
  return result;
}
