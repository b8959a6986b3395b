// A shared library for real_library_test that answers as a driver older than half of the functions
// that Divvy asks for: one GPU, only first versions, no NVLink, no events.
#include <cstring>

#include "abi/nvml.h"

namespace {

int device;

nvmlReturn_t write_text(char* out, unsigned int size, const char* text) {
  const std::size_t needed = std::strlen(text) + 1;
  if (needed > size) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text, needed);
  return NVML_SUCCESS;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }
EXPORT nvmlReturn_t nvmlShutdown() { return NVML_SUCCESS; }

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* out) {
  if (index != 0) return NVML_ERROR_INVALID_ARGUMENT;
  *out = reinterpret_cast<nvmlDevice_t>(&device);
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char* name, unsigned int size) {
  return write_text(name, size, "Tesla K80");
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t* memory) {
  *memory = {.total = 12U << 20U, .free = 8U << 20U, .used = 4U << 20U};
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t, nvmlTemperatureSensors_t,
                                             unsigned int* temperature) {
  *temperature = 55;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t, unsigned int size, unsigned long* set) {
  if (size < 2) return NVML_ERROR_INVALID_ARGUMENT;
  set[0] = 0x5;
  set[1] = 0x1;
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned int*) {
  return NVML_ERROR_GPU_IS_LOST;
}

// Forty samples: two processes, one of them twice, places that are empty and one with nonsense.
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t,
                                                    nvmlProcessUtilizationSample_t* samples,
                                                    unsigned int* count,
                                                    unsigned long long last_seen_us) {
  constexpr unsigned int kSamples = 40;
  if (last_seen_us > 1'000'000) return NVML_ERROR_NOT_FOUND;
  const unsigned int room = *count;
  *count = kSamples;
  if (room < kSamples) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned int i = 0; i < kSamples; ++i) samples[i] = {};
  samples[0] = {
      .pid = 10, .timeStamp = 900'000, .smUtil = 80, .memUtil = 0, .encUtil = 0, .decUtil = 0};
  samples[1] = {
      .pid = 10, .timeStamp = 700'000, .smUtil = 20, .memUtil = 0, .encUtil = 0, .decUtil = 0};
  samples[2] = {
      .pid = 11, .timeStamp = 900'000, .smUtil = 5, .memUtil = 0, .encUtil = 0, .decUtil = 0};
  samples[3] = {
      .pid = 12, .timeStamp = 900'000, .smUtil = ~0U, .memUtil = 0, .encUtil = 0, .decUtil = 0};
  return NVML_SUCCESS;
}

// Knows the temperature of no memory, and of links nothing at all.
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t, int count, nvmlFieldValue_t* values) {
  for (int i = 0; i < count; ++i) {
    values[i].nvmlReturn = NVML_SUCCESS;
    values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    switch (values[i].fieldId) {
      case NVML_FI_DEV_MEMORY_TEMP:
        values[i].value.uiVal = 0;
        break;
      case NVML_FI_DEV_PERF_POLICY_POWER:
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        values[i].value.ullVal = 5'000'000'000;
        break;
      case NVML_FI_DEV_PERF_POLICY_THERMAL:
        values[i].value.uiVal = 9;
        break;
      default:
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        break;
    }
  }
  return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t,
                                                              unsigned long long* reasons) {
  *reasons = 4;
  return NVML_SUCCESS;
}
