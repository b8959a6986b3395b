// The simulated NVML: utilisation, temperature, power, clocks and PCI Express.
#include <time.h>

#include "simgpu/nvml_call.h"
#include "simgpu/readings.h"

namespace divvy::simgpu {
namespace {

// Reads one number.
template <typename Number, typename Read>
nvmlReturn_t give_number(nvmlDevice_t device, QueryClass queries, Number* to, Read&& read) {
  return on_device(device, queries, {to}, [&](Device& called) {
    *to = static_cast<Number>(read(called));
    return NVML_SUCCESS;
  });
}

uint32_t lowest_power_limit(const GpuSpec& spec) { return spec.power_limit_mw / 7 * 2; }

// Encoders and decoders are not simulated: they are there and idle.
nvmlReturn_t idle_engine(nvmlDevice_t device, unsigned int* percent, unsigned int* period_us) {
  return on_device(device, QueryClass::kUtilization, {percent, period_us}, [&](Device&) {
    *percent = 0;
    *period_us = 167'000;
    return NVML_SUCCESS;
  });
}

// The video clock runs below the SM clock.
uint32_t video_mhz(uint32_t sm_mhz) { return sm_mhz / 10 * 9; }

}  // namespace
}  // namespace divvy::simgpu

using divvy::simgpu::Device;
using divvy::simgpu::kNoClass;
using divvy::simgpu::on_device;
using divvy::simgpu::QueryClass;
namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device,
                                                       nvmlUtilization_t* utilization) {
  return on_device(device, QueryClass::kUtilization, {utilization}, [&](Device& called) {
    utilization->gpu = sim::utilization_percent(called.shared(), called.gpu);
    utilization->memory = sim::memory_utilization_percent(called.shared(), called.gpu);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int* percent,
                                                         unsigned int* period_us) {
  return sim::idle_engine(device, percent, period_us);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int* percent,
                                                         unsigned int* period_us) {
  return sim::idle_engine(device, percent, period_us);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device,
                                                  nvmlTemperatureSensors_t sensor,
                                                  unsigned int* celsius) {
  return on_device(device, QueryClass::kTemperature, {celsius}, [&](Device& called) {
    if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    *celsius = static_cast<unsigned int>(sim::temperature_c(called.shared(), called.gpu));
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device,
                                                   nvmlTemperature_t* temperature) {
  return on_device(device, QueryClass::kTemperature, {temperature}, [&](Device& called) {
    if (temperature->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (temperature->sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    temperature->temperature = sim::temperature_c(called.shared(), called.gpu);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                                           nvmlTemperatureThresholds_t threshold,
                                                           unsigned int* celsius) {
  return on_device(device, QueryClass::kTemperature, {celsius}, [&](Device& called) {
    switch (threshold) {
      case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
        *celsius = called.spec().shutdown_c;
        break;
      case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
        *celsius = called.spec().slowdown_c;
        break;
      case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
        *celsius = called.spec().slowdown_c - 2;
        break;
      case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
        *celsius = called.spec().slowdown_c + 8;
        break;
      case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN:
      case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR:
      case NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX:
      case NVML_TEMPERATURE_THRESHOLD_GPS_CURR:
        return NVML_ERROR_NOT_SUPPORTED;
      default:
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int* percent) {
  // All models of the catalogue are cooled by the server's fans and have none of their own.
  return on_device(device, kNoClass, {percent}, [](Device&) { return NVML_ERROR_NOT_SUPPORTED; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts) {
  return sim::give_number(device, QueryClass::kPower, milliwatts, [](Device& called) {
    return sim::power_mw(called.shared(), called.gpu);
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device,
                                                          nvmlEnableState_t* mode) {
  return sim::give_number(device, QueryClass::kPower, mode,
                          [](Device&) { return NVML_FEATURE_ENABLED; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device,
                                                           unsigned int* milliwatts) {
  return sim::give_number(device, QueryClass::kPower, milliwatts,
                          [](Device& called) { return sim::power_limit_mw(called.gpu); });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device,
                                                         unsigned int* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device,
                                                                  unsigned int* milliwatts) {
  return sim::give_number(device, QueryClass::kPower, milliwatts,
                          [](Device& called) { return called.spec().power_limit_mw; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                                      unsigned int* lowest,
                                                                      unsigned int* highest) {
  return on_device(device, QueryClass::kPower, {lowest, highest}, [&](Device& called) {
    *lowest = sim::lowest_power_limit(called.spec());
    *highest = called.spec().power_limit_mw;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device,
                                                           unsigned int milliwatts) {
  return on_device(device, QueryClass::kPower, {}, [&](Device& called) {
    if (milliwatts < sim::lowest_power_limit(called.spec()) ||
        milliwatts > called.spec().power_limit_mw) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (const nvmlReturn_t refused = sim::may_change(); refused != NVML_SUCCESS) return refused;
    called.gpu.settings.power_limit_mw.store(milliwatts);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                             unsigned long long* millijoules) {
  return sim::give_number(device, QueryClass::kPower, millijoules, [](Device& called) {
    return sim::energy_mj(called.shared(), called.gpu);
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                                unsigned int* mhz) {
  return on_device(device, QueryClass::kClocks, {mhz}, [&](Device& called) {
    const uint32_t sm = sim::sm_clock_mhz(called.shared(), called.gpu);
    switch (type) {
      case NVML_CLOCK_GRAPHICS:
      case NVML_CLOCK_SM:
        *mhz = sm;
        return NVML_SUCCESS;
      case NVML_CLOCK_MEM:
        *mhz = sim::memory_clock_mhz(called.shared(), called.gpu);
        return NVML_SUCCESS;
      case NVML_CLOCK_VIDEO:
        *mhz = sim::video_mhz(sm);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                                   unsigned int* mhz) {
  return on_device(device, QueryClass::kClocks, {mhz}, [&](Device& called) {
    switch (type) {
      case NVML_CLOCK_GRAPHICS:
      case NVML_CLOCK_SM:
        *mhz = called.spec().clock_mhz;
        return NVML_SUCCESS;
      case NVML_CLOCK_MEM:
        *mhz = called.spec().memory_clock_mhz;
        return NVML_SUCCESS;
      case NVML_CLOCK_VIDEO:
        *mhz = sim::video_mhz(called.spec().clock_mhz);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned int lowest,
                                                      unsigned int highest) {
  return on_device(device, QueryClass::kClocks, {}, [&](Device& called) {
    if (lowest > highest || highest == 0) return NVML_ERROR_INVALID_ARGUMENT;
    if (const nvmlReturn_t refused = sim::may_change(); refused != NVML_SUCCESS) return refused;
    called.gpu.settings.locked_min_mhz.store(lowest);
    called.gpu.settings.locked_max_mhz.store(highest);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device) {
  return on_device(device, QueryClass::kClocks, {}, [&](Device& called) {
    if (const nvmlReturn_t refused = sim::may_change(); refused != NVML_SUCCESS) return refused;
    called.gpu.settings.locked_min_mhz.store(0);
    called.gpu.settings.locked_max_mhz.store(0);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                                unsigned long long* reasons) {
  return sim::give_number(device, QueryClass::kClocks, reasons, [](Device& called) {
    return sim::clock_event_reasons(called.shared(), called.gpu);
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                                   unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                                  unsigned long long* reasons) {
  return sim::give_number(device, QueryClass::kClocks, reasons, [](Device&) {
    return nvmlClocksEventReasonGpuIdle | nvmlClocksEventReasonApplicationsClocksSetting |
           nvmlClocksEventReasonSwPowerCap | nvmlClocksThrottleReasonHwSlowdown |
           nvmlClocksThrottleReasonHwThermalSlowdown;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device,
                                                                     unsigned long long* reasons) {
  return nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* state) {
  return sim::give_number(device, QueryClass::kClocks, state, [](Device& called) {
    return sim::performance_state(called.shared(), called.gpu);
  });
}

// Counts for as long as a driver does. Simulated time that stands still has no traffic.
SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device,
                                                     nvmlPcieUtilCounter_t counter,
                                                     unsigned int* kb_per_second) {
  constexpr timespec kInterval{0, 20'000'000};
  constexpr uint64_t kIntervalsPerSecond = 50;
  return on_device(device, QueryClass::kPci, {kb_per_second}, [&](Device& called) {
    if (counter > NVML_PCIE_UTIL_RX_BYTES) return NVML_ERROR_INVALID_ARGUMENT;
    const auto& bytes = counter == NVML_PCIE_UTIL_TX_BYTES ? called.gpu.pcie_sent_bytes
                                                           : called.gpu.pcie_received_bytes;
    const uint64_t before = bytes.load();
    nanosleep(&kInterval, nullptr);
    *kb_per_second =
        static_cast<unsigned int>((bytes.load() - before) * kIntervalsPerSecond / 1000);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int* count) {
  return sim::give_number(device, QueryClass::kPci, count, [](Device&) { return 0U; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device,
                                                            unsigned int* generation) {
  return sim::give_number(device, QueryClass::kPci, generation,
                          [](Device& called) { return called.spec().pcie_gen; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device,
                                                             unsigned int* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int* width) {
  return sim::give_number(device, QueryClass::kPci, width,
                          [](Device& called) { return called.spec().pcie_width; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* width) {
  return nvmlDeviceGetMaxPcieLinkWidth(device, width);
}
