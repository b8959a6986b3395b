// The simulated NVML: what a device is, and the modes an administrator may set.
#include <stdio.h>
#include <string.h>

#include "simgpu/nvml_call.h"
#include "simgpu/nvml_pci.h"

namespace divvy::simgpu {

nvmlPciInfo_t pci_info(const char* address, unsigned int device_id, unsigned int subsystem_id) {
  nvmlPciInfo_t info{};
  sscanf(address, "%x:%x:%x", &info.domain, &info.bus, &info.device);
  snprintf(info.busId, sizeof(info.busId), "%08X:%02X:%02X.0", info.domain, info.bus & 0xFFU,
           info.device & 0xFFU);
  snprintf(info.busIdLegacy, sizeof(info.busIdLegacy), "%04X:%02X:%02X.0", info.domain & 0xFFFFU,
           info.bus & 0xFFU, info.device & 0xFFU);
  info.pciDeviceId = device_id;
  info.pciSubSystemId = subsystem_id;
  return info;
}

void give_pci_info(const nvmlPciInfo_t& info, nvmlPciInfo_t* to, PciLayout layout) {
  memcpy(static_cast<void*>(to), &info, static_cast<size_t>(layout));
}

namespace {

nvmlReturn_t give_own_pci_info(nvmlDevice_t device, nvmlPciInfo_t* pci, PciLayout layout) {
  return on_device(device, QueryClass::kPci, {pci}, [&](Device& called) {
    const GpuSpec& spec = called.spec();
    give_pci_info(pci_info(spec.pci, spec.pci_device_id, spec.pci_subsystem_id), pci, layout);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t give_state(nvmlDevice_t device, nvmlEnableState_t* state, nvmlEnableState_t value) {
  return on_device(device, kNoClass, {state}, [&](Device&) {
    *state = value;
    return NVML_SUCCESS;
  });
}

// A setting that takes one number, which `allowed` has found right.
nvmlReturn_t change(nvmlDevice_t device, bool allowed, std::atomic<uint32_t> Settings::* setting,
                    uint32_t value) {
  return on_device(device, kNoClass, {}, [&](Device& called) {
    if (!allowed) return NVML_ERROR_INVALID_ARGUMENT;
    if (const nvmlReturn_t refused = may_change(); refused != NVML_SUCCESS) return refused;
    (called.gpu.settings.*setting).store(value);
    return NVML_SUCCESS;
  });
}

}  // namespace
}  // namespace divvy::simgpu

using divvy::simgpu::Device;
using divvy::simgpu::kNoClass;
using divvy::simgpu::on_device;
using divvy::simgpu::QueryClass;
using divvy::simgpu::Settings;
namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  return on_device(device, QueryClass::kName, {name}, [&](Device& called) {
    return sim::give_text(called.spec().name, name, length);
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  return on_device(device, kNoClass, {uuid}, [&](Device& called) {
    return sim::give_text(called.spec().uuid, uuid, length);
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* serial,
                                             unsigned int length) {
  return on_device(device, kNoClass, {serial}, [&](Device& called) {
    return sim::give_text(called.spec().serial, serial, length);
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* version,
                                                   unsigned int length) {
  return on_device(device, kNoClass, {version}, [&](Device& called) {
    return sim::give_text(called.spec().vbios, version, length);
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* brand) {
  return on_device(device, kNoClass, {brand}, [&](Device& called) {
    const bool old = called.spec().architecture <= NVML_DEVICE_ARCH_VOLTA;
    *brand = old ? NVML_BRAND_TESLA : NVML_BRAND_NVIDIA;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  return on_device(device, kNoClass, {index}, [&](Device& called) {
    *index = static_cast<unsigned int>(called.index);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor_number) {
  return nvmlDeviceGetIndex(device, minor_number);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return sim::give_own_pci_info(device, pci, sim::PciLayout::kV1);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return sim::give_own_pci_info(device, pci, sim::PciLayout::kV2);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return sim::give_own_pci_info(device, pci, sim::PciLayout::kV3);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major_version,
                                                            int* minor_version) {
  return on_device(device, kNoClass, {major_version, minor_version}, [&](Device& called) {
    *major_version = static_cast<int>(called.spec().compute_major);
    *minor_version = static_cast<int>(called.spec().compute_minor);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int* cores) {
  return on_device(device, kNoClass, {cores}, [&](Device& called) {
    *cores = called.spec().sm_count * called.spec().cores_per_sm;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device,
                                                   nvmlDeviceArchitecture_t* architecture) {
  return on_device(device, kNoClass, {architecture}, [&](Device& called) {
    *architecture = called.spec().architecture;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                              unsigned int* pending) {
  return on_device(device, kNoClass, {current, pending}, [&](Device& called) {
    // Cards for graphics and inference of these generations cannot be cut up.
    const uint32_t arch = called.spec().architecture;
    const bool large = called.spec().memory_bus_bits >= 5120;
    if (arch < NVML_DEVICE_ARCH_AMPERE || !large) return NVML_ERROR_NOT_SUPPORTED;
    *current = 0;
    *pending = 0;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device,
                                                      nvmlEnableState_t* mode) {
  return on_device(device, kNoClass, {mode}, [&](Device& called) {
    const bool off = called.gpu.settings.persistence_off.load() != 0;
    *mode = off ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return sim::change(device, mode <= NVML_FEATURE_ENABLED, &Settings::persistence_off,
                     mode == NVML_FEATURE_DISABLED ? 1 : 0);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  return on_device(device, kNoClass, {mode}, [&](Device& called) {
    *mode = static_cast<nvmlComputeMode_t>(called.gpu.settings.compute_mode.load());
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode) {
  // A mode per thread is long gone from the driver; asking for it gives the one per process.
  const nvmlComputeMode_t kept =
      mode == NVML_COMPUTEMODE_EXCLUSIVE_THREAD ? NVML_COMPUTEMODE_EXCLUSIVE_PROCESS : mode;
  return sim::change(device, mode <= NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, &Settings::compute_mode,
                     kept);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* state) {
  return sim::give_state(device, state, NVML_FEATURE_DISABLED);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* state) {
  return sim::give_state(device, state, NVML_FEATURE_DISABLED);
}
