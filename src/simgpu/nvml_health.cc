// The simulated NVML: memory errors and what became of the rows they were in.
#include <algorithm>

#include "simgpu/nvml_call.h"

namespace divvy::simgpu {
namespace {

// Banks of spare rows, as the histogram counts them.
constexpr unsigned int kRemapBanks = 640;

bool remaps_rows(const Device& called) {
  return called.spec().architecture >= NVML_DEVICE_ARCH_AMPERE;
}

// Errors since the driver was loaded and over the card's life are the same here: it is new.
uint64_t errors(const Device& called, nvmlMemoryErrorType_t type) {
  const Faults& faults = called.gpu.faults;
  return type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? faults.ecc_corrected.load()
                                                  : faults.ecc_uncorrected.load();
}

bool known(nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter) {
  return type <= NVML_MEMORY_ERROR_TYPE_UNCORRECTED && counter <= NVML_AGGREGATE_ECC;
}

// Before rows could be remapped, each uncorrected error retired a page.
nvmlReturn_t retired_pages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                           unsigned int* count, unsigned long long* addresses,
                           unsigned long long* times_us) {
  return on_device(device, QueryClass::kEcc, {count}, [&](Device& called) {
    if (cause > NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR) return NVML_ERROR_INVALID_ARGUMENT;
    if (remaps_rows(called)) return NVML_ERROR_NOT_SUPPORTED;
    uint64_t pages = 0;
    if (cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR) {
      pages = std::min<uint64_t>(called.gpu.faults.ecc_uncorrected.load(), 64);
    }
    const unsigned int room = *count;
    *count = static_cast<unsigned int>(pages);
    if (room == 0 && addresses == nullptr) return NVML_SUCCESS;
    if (room < pages) return NVML_ERROR_INSUFFICIENT_SIZE;
    if (pages > 0 && addresses == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    for (uint64_t i = 0; i < pages; ++i) {
      constexpr uint64_t kPage = 0x10000;
      addresses[i] = (i * 4099 + 1) * kPage % called.spec().memory_bytes;
      if (times_us != nullptr) times_us[i] = called.shared().created_ns / 1000;
    }
    return NVML_SUCCESS;
  });
}

}  // namespace
}  // namespace divvy::simgpu

using divvy::simgpu::Device;
using divvy::simgpu::on_device;
using divvy::simgpu::QueryClass;
namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current,
                                              nvmlEnableState_t* pending) {
  return on_device(device, QueryClass::kEcc, {current, pending}, [&](Device& called) {
    const bool off = called.gpu.settings.ecc_off_pending.load() != 0;
    *current = NVML_FEATURE_ENABLED;
    *pending = off ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return on_device(device, QueryClass::kEcc, {}, [&](Device& called) {
    if (mode > NVML_FEATURE_ENABLED) return NVML_ERROR_INVALID_ARGUMENT;
    if (const nvmlReturn_t refused = sim::may_change(); refused != NVML_SUCCESS) return refused;
    // Takes effect at the next reboot, which never comes.
    called.gpu.settings.ecc_off_pending.store(mode == NVML_FEATURE_DISABLED ? 1 : 0);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device,
                                                     nvmlMemoryErrorType_t type,
                                                     nvmlEccCounterType_t counter,
                                                     unsigned long long* count) {
  return on_device(device, QueryClass::kEcc, {count}, [&](Device& called) {
    if (!sim::known(type, counter)) return NVML_ERROR_INVALID_ARGUMENT;
    *count = sim::errors(called, type);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device,
                                                         nvmlMemoryErrorType_t type,
                                                         nvmlEccCounterType_t counter,
                                                         nvmlMemoryLocation_t location,
                                                         unsigned long long* count) {
  return on_device(device, QueryClass::kEcc, {count}, [&](Device& called) {
    if (!sim::known(type, counter) || location > NVML_MEMORY_LOCATION_SRAM) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const bool dram = location == NVML_MEMORY_LOCATION_DRAM;
    const bool sram = location == NVML_MEMORY_LOCATION_SRAM;
    // Ampere and later tell only these two apart; older ones know every cache but no SRAM.
    if (sim::remaps_rows(called) ? !dram && !sram : sram) return NVML_ERROR_NOT_SUPPORTED;
    *count = dram ? sim::errors(called, type) : 0;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* corrected,
                                                   unsigned int* uncorrected, unsigned int* pending,
                                                   unsigned int* failed) {
  return on_device(device, QueryClass::kEcc, {corrected, uncorrected, pending, failed},
                   [&](Device& called) {
                     if (!sim::remaps_rows(called)) return NVML_ERROR_NOT_SUPPORTED;
                     const sim::Faults& faults = called.gpu.faults;
                     *corrected = 0;
                     *uncorrected = faults.remapped_rows.load();
                     *pending = faults.remap_pending.load();
                     *failed = faults.remap_failed.load();
                     return NVML_SUCCESS;
                   });
}

SIMGPU_NVML nvmlReturn_t
nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t* values) {
  return on_device(device, QueryClass::kEcc, {values}, [&](Device& called) {
    if (!sim::remaps_rows(called)) return NVML_ERROR_NOT_SUPPORTED;
    const unsigned int touched = std::min(called.gpu.faults.remapped_rows.load(), sim::kRemapBanks);
    const bool failed = called.gpu.faults.remap_failed.load() != 0;
    *values = {};
    // Each remapped row is in a bank of its own; a failed remap means that one bank has none left.
    values->none = failed ? 1 : 0;
    values->high = std::min(touched, sim::kRemapBanks - values->none);
    values->max = sim::kRemapBanks - values->none - values->high;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device,
                                                   nvmlPageRetirementCause_t cause,
                                                   unsigned int* count,
                                                   unsigned long long* addresses) {
  return sim::retired_pages(device, cause, count, addresses, nullptr);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device,
                                                      nvmlPageRetirementCause_t cause,
                                                      unsigned int* count,
                                                      unsigned long long* addresses,
                                                      unsigned long long* times_us) {
  return sim::retired_pages(device, cause, count, addresses, times_us);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device,
                                                                nvmlEnableState_t* pending) {
  return on_device(device, QueryClass::kEcc, {pending}, [&](Device& called) {
    if (sim::remaps_rows(called)) return NVML_ERROR_NOT_SUPPORTED;
    const bool waits = called.gpu.faults.remap_pending.load() != 0;
    *pending = waits ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
  });
}
