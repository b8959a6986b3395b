// The simulated NVML: what happened in the last second, for a GPU and for each process.
#include <time.h>

#include <algorithm>
#include <vector>

#include "simgpu/nvml_call.h"
#include "simgpu/nvml_processes.h"
#include "simgpu/readings.h"

namespace divvy::simgpu {
namespace {

// NVML dates samples in microseconds of the wall clock. The distance between that and the
// simulation's clock is measured once, so that the same sample has the same date in every answer.
// The manual clock has no relation to the wall clock and dates its samples by itself.
uint64_t date_us(const Shared& shared, uint64_t at_ns) {
  if (shared.clock_mode == static_cast<uint32_t>(ClockMode::kManual)) return at_ns / 1000;
  static const int64_t kOffsetNs = [] {
    timespec wall{};
    timespec steady{};
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &steady);
    return (static_cast<int64_t>(wall.tv_sec) - steady.tv_sec) * 1'000'000'000 + wall.tv_nsec -
           steady.tv_nsec;
  }();
  return static_cast<uint64_t>(static_cast<int64_t>(at_ns) + kOffsetNs) / 1000;
}

// A sample is a bucket of the past that is full.
struct Sample {
  uint64_t end_ns;
  uint32_t busy_permille;
};

std::vector<Sample> samples_since(const Device& called, unsigned long long last_seen_us) {
  const uint64_t now = now_ns(called.shared());
  std::vector<Sample> samples;
  for (uint64_t ago = kBuckets - 1; ago-- > 0;) {
    const uint64_t number = now / kBucketNs;
    if (number <= ago) continue;
    const uint64_t end_ns = (number - ago) * kBucketNs;
    if (date_us(called.shared(), end_ns) <= last_seen_us) continue;
    samples.push_back(
        {.end_ns = end_ns, .busy_permille = busy_permille(called.gpu.buckets, end_ns, 1)});
  }
  return samples;
}

// What a sample says for a sampling type; nothing when that is not measured.
bool sample_value(const Device& called, nvmlSamplingType_t type, const Sample& sample,
                  unsigned int* value) {
  const GpuSpec& spec = called.spec();
  const uint32_t busy = sample.busy_permille;
  switch (type) {
    case NVML_TOTAL_POWER_SAMPLES:
      *value = spec.idle_power_mw +
               static_cast<unsigned int>(uint64_t{spec.power_limit_mw - spec.idle_power_mw} * busy /
                                         1000);
      return true;
    case NVML_GPU_UTILIZATION_SAMPLES:
      *value = (busy + 5) / 10;
      return true;
    case NVML_MEMORY_UTILIZATION_SAMPLES:
      *value = (busy + 5) / 20;
      return true;
    case NVML_ENC_UTILIZATION_SAMPLES:
    case NVML_DEC_UTILIZATION_SAMPLES:
    case NVML_JPG_UTILIZATION_SAMPLES:
    case NVML_OFA_UTILIZATION_SAMPLES:
      *value = 0;
      return true;
    case NVML_PROCESSOR_CLK_SAMPLES:
      *value = busy > 0 ? spec.clock_mhz : sm_clock_mhz(called.shared(), called.gpu);
      return true;
    case NVML_MEMORY_CLK_SAMPLES:
      *value = memory_clock_mhz(called.shared(), called.gpu);
      return true;
    case NVML_MODULE_POWER_SAMPLES:
      return false;
  }
  return false;
}

// The processes that did something since `last_seen_us`, and when that was measured.
std::vector<RunningProcess> active_since(Device& called, unsigned long long last_seen_us,
                                         uint64_t* measured_us) {
  const uint64_t now = now_ns(called.shared());
  *measured_us = date_us(called.shared(), now / kBucketNs * kBucketNs);
  std::vector<RunningProcess> active;
  if (*measured_us <= last_seen_us) return active;
  for (const RunningProcess& process : running_processes(called)) {
    if (process.busy_permille > 0) active.push_back(process);
  }
  return active;
}

}  // namespace
}  // namespace divvy::simgpu

using divvy::simgpu::Device;
using divvy::simgpu::on_device;
using divvy::simgpu::QueryClass;
namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
                                              unsigned long long last_seen_us,
                                              nvmlValueType_t* value_type, unsigned int* count,
                                              nvmlSample_t* samples) {
  return on_device(device, QueryClass::kUtilization, {value_type, count}, [&](Device& called) {
    if (type > NVML_OFA_UTILIZATION_SAMPLES) return NVML_ERROR_INVALID_ARGUMENT;
    if (samples != nullptr && *count == 0) return NVML_ERROR_INVALID_ARGUMENT;
    if (type == NVML_MODULE_POWER_SAMPLES) return NVML_ERROR_NOT_SUPPORTED;
    const std::vector<sim::Sample> found = sim::samples_since(called, last_seen_us);
    if (found.empty()) return NVML_ERROR_NOT_FOUND;
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    const auto available = static_cast<unsigned int>(found.size());
    *count = samples == nullptr ? available : std::min(*count, available);
    if (samples == nullptr) return NVML_SUCCESS;
    for (unsigned int i = 0; i < *count; ++i) {
      samples[i].timeStamp = sim::date_us(called.shared(), found[i].end_ns);
      samples[i].sampleValue.ullVal = 0;
      sim::sample_value(called, type, found[i], &samples[i].sampleValue.uiVal);
    }
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                         nvmlProcessUtilizationSample_t* samples,
                                                         unsigned int* count,
                                                         unsigned long long last_seen_us) {
  return on_device(device, QueryClass::kUtilization, {count}, [&](Device& called) {
    uint64_t measured_us = 0;
    const auto active = sim::active_since(called, last_seen_us, &measured_us);
    const unsigned int room = *count;
    *count = static_cast<unsigned int>(active.size());
    if (samples == nullptr) {
      // The way to ask for the size, and the real library answers it with this code.
      return active.empty() ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
    }
    if (active.empty()) return NVML_ERROR_NOT_FOUND;
    if (room < active.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (size_t i = 0; i < active.size(); ++i) {
      samples[i] = {.pid = active[i].pid,
                    .timeStamp = measured_us,
                    .smUtil = (active[i].busy_permille + 9) / 10,
                    .memUtil = active[i].busy_permille / 20,
                    .encUtil = 0,
                    .decUtil = 0};
    }
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t
nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t* info) {
  return on_device(device, QueryClass::kUtilization, {info}, [&](Device& called) {
    if (info->version != nvmlProcessesUtilizationInfo_v1) {
      return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    uint64_t measured_us = 0;
    const auto active = sim::active_since(called, info->lastSeenTimeStamp, &measured_us);
    if (active.empty()) return NVML_ERROR_NOT_FOUND;
    const unsigned int room = info->processSamplesCount;
    info->processSamplesCount = static_cast<unsigned int>(active.size());
    if (info->procUtilArray == nullptr || room < active.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (size_t i = 0; i < active.size(); ++i) {
      info->procUtilArray[i] = {.timeStamp = measured_us,
                                .pid = active[i].pid,
                                .smUtil = (active[i].busy_permille + 9) / 10,
                                .memUtil = active[i].busy_permille / 20,
                                .encUtil = 0,
                                .decUtil = 0,
                                .jpgUtil = 0,
                                .ofaUtil = 0};
    }
    return NVML_SUCCESS;
  });
}

// Accounting covers the processes that live; those that ended are forgotten with their slot.

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return on_device(device, sim::kNoClass, {mode}, [&](Device& called) {
    const bool on = called.gpu.settings.accounting.load() != 0;
    *mode = on ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return on_device(device, sim::kNoClass, {}, [&](Device& called) {
    if (mode > NVML_FEATURE_ENABLED) return NVML_ERROR_INVALID_ARGUMENT;
    if (const nvmlReturn_t refused = sim::may_change(); refused != NVML_SUCCESS) return refused;
    called.gpu.settings.accounting.store(mode);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device,
                                                           unsigned int* size) {
  return on_device(device, sim::kNoClass, {size}, [&](Device&) {
    *size = sim::kMaxProcesses;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int* count,
                                                     unsigned int* pids) {
  return on_device(device, QueryClass::kProcesses, {count}, [&](Device& called) {
    if (called.gpu.settings.accounting.load() == 0) return NVML_ERROR_NOT_SUPPORTED;
    if (*count > 0 && pids == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const auto running = sim::running_processes(called);
    const unsigned int room = *count;
    *count = static_cast<unsigned int>(running.size());
    if (room < running.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (size_t i = 0; i < running.size(); ++i) pids[i] = running[i].pid;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid,
                                                      nvmlAccountingStats_t* stats) {
  return on_device(device, QueryClass::kProcesses, {stats}, [&](Device& called) {
    if (called.gpu.settings.accounting.load() == 0) return NVML_ERROR_NOT_SUPPORTED;
    const uint64_t now = sim::now_ns(called.shared());
    for (const sim::RunningProcess& process : sim::running_processes(called)) {
      if (process.pid != pid) continue;
      const uint64_t lived_ns = std::max<uint64_t>(now - process.started_ns, 1);
      const auto percent =
          static_cast<unsigned int>(std::min(process.consumed_ns, lived_ns) * 100.0 / lived_ns);
      *stats = {};
      stats->gpuUtilization = percent;
      stats->memoryUtilization = percent / 2;
      stats->maxMemoryUsage = process.peak_bytes;
      stats->time = 0;  // as long as it runs
      stats->startTime = sim::date_us(called.shared(), process.started_ns);
      stats->isRunning = 1;
      return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
  });
}
