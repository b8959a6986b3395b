// NVML: what changes a device for everybody is refused inside a tenant.
#include "shim/export.h"
#include "shim/nvml_real.h"
#include "shim/nvml_view.h"

using divvy::shim::g_nvml;
using divvy::shim::in_tenant;

#define DIVVY_REFUSE(symbol) \
  DIVVY_NEED_NVML(symbol);   \
  if (in_tenant()) return NVML_ERROR_NO_PERMISSION

DIVVY_EXPORT nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device,
                                                       nvmlSetMemoryLimits_v1_t* limits) {
  DIVVY_REFUSE(nvmlDeviceSetMemoryLimits_v1);
  return g_nvml.nvmlDeviceSetMemoryLimits_v1(device, limits);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device,
                                                       nvmlEnableState_t mode) {
  DIVVY_REFUSE(nvmlDeviceSetPersistenceMode);
  return g_nvml.nvmlDeviceSetPersistenceMode(device, mode);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode) {
  DIVVY_REFUSE(nvmlDeviceSetComputeMode);
  return g_nvml.nvmlDeviceSetComputeMode(device, mode);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device,
                                                            unsigned int limit) {
  DIVVY_REFUSE(nvmlDeviceSetPowerManagementLimit);
  return g_nvml.nvmlDeviceSetPowerManagementLimit(device, limit);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned int least,
                                                       unsigned int most) {
  DIVVY_REFUSE(nvmlDeviceSetGpuLockedClocks);
  return g_nvml.nvmlDeviceSetGpuLockedClocks(device, least, most);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device) {
  DIVVY_REFUSE(nvmlDeviceResetGpuLockedClocks);
  return g_nvml.nvmlDeviceResetGpuLockedClocks(device);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  DIVVY_REFUSE(nvmlDeviceSetEccMode);
  return g_nvml.nvmlDeviceSetEccMode(device, mode);
}
DIVVY_EXPORT nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  DIVVY_REFUSE(nvmlDeviceSetAccountingMode);
  return g_nvml.nvmlDeviceSetAccountingMode(device, mode);
}

#define DIVVY_NVML_SET(symbol)                                                         \
  DIVVY_EXPORT nvmlReturn_t symbol(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, \
                                   uintptr_t e, uintptr_t f) {                         \
    DIVVY_REFUSE(symbol);                                                              \
    return g_nvml.symbol(a, b, c, d, e, f);                                            \
  }
#include "shim/nvml_set_functions.inc"
