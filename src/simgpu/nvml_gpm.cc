// The simulated NVML: performance monitoring (GPM) of Hopper and later, which compares two samples
// of a GPU's counters.
#include <algorithm>
#include <array>
#include <memory>

#include "simgpu/nvml_call.h"

struct nvmlGpmSample_st {
  bool taken = false;
  int gpu = 0;
  uint64_t at_ns = 0;
  uint64_t busy_ns = 0;
  uint64_t pcie_sent_bytes = 0;
  uint64_t pcie_received_bytes = 0;
};

namespace divvy::simgpu {
namespace {

bool supports_gpm(const Device& called) {
  return called.spec().architecture >= NVML_DEVICE_ARCH_HOPPER;
}

// Kernels here have no instructions, so that each of these is taken as a fixed part of the time
// in which a kernel ran.
struct Metric {
  unsigned int id;
  unsigned int percent_of_busy;
  const char* name;
  const char* unit;
};

constexpr std::array<Metric, 16> kMetrics = {{
    {NVML_GPM_METRIC_GRAPHICS_UTIL, 100, "graphics_util", "%"},
    {NVML_GPM_METRIC_SM_UTIL, 100, "sm_util", "%"},
    {NVML_GPM_METRIC_SM_OCCUPANCY, 60, "sm_occupancy", "%"},
    {NVML_GPM_METRIC_INTEGER_UTIL, 15, "integer_util", "%"},
    {NVML_GPM_METRIC_ANY_TENSOR_UTIL, 40, "any_tensor_util", "%"},
    {NVML_GPM_METRIC_DFMA_TENSOR_UTIL, 0, "dfma_tensor_util", "%"},
    {NVML_GPM_METRIC_HMMA_TENSOR_UTIL, 40, "hmma_tensor_util", "%"},
    {NVML_GPM_METRIC_IMMA_TENSOR_UTIL, 0, "imma_tensor_util", "%"},
    {NVML_GPM_METRIC_DRAM_BW_UTIL, 50, "dram_bw_util", "%"},
    {NVML_GPM_METRIC_FP64_UTIL, 0, "fp64_util", "%"},
    {NVML_GPM_METRIC_FP32_UTIL, 20, "fp32_util", "%"},
    {NVML_GPM_METRIC_FP16_UTIL, 5, "fp16_util", "%"},
    {NVML_GPM_METRIC_PCIE_TX_PER_SEC, 0, "pcie_tx_per_sec", "MiB/s"},
    {NVML_GPM_METRIC_PCIE_RX_PER_SEC, 0, "pcie_rx_per_sec", "MiB/s"},
    {NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, 0, "nvlink_total_rx_per_sec", "MiB/s"},
    {NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, 0, "nvlink_total_tx_per_sec", "MiB/s"},
}};

// What happened between two samples.
struct Between {
  double busy_part = 0;
  double sent_mib_per_s = 0;
  double received_mib_per_s = 0;
};

Between compare(const nvmlGpmSample_st& first, const nvmlGpmSample_st& second) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  const auto elapsed = static_cast<double>(second.at_ns) - static_cast<double>(first.at_ns);
  if (elapsed <= 0) return {};
  const auto grown = [](uint64_t before, uint64_t after) {
    return after > before ? static_cast<double>(after - before) : 0.0;
  };
  // Work is accounted when it is settled, which may be a little after it was done.
  return {.busy_part = std::min(grown(first.busy_ns, second.busy_ns) / elapsed, 1.0),
          .sent_mib_per_s =
              grown(first.pcie_sent_bytes, second.pcie_sent_bytes) / kMebibyte / (elapsed / 1e9),
          .received_mib_per_s = grown(first.pcie_received_bytes, second.pcie_received_bytes) /
                                kMebibyte / (elapsed / 1e9)};
}

void fill(nvmlGpmMetric_t& metric, const Between& between) {
  metric.value = 0;
  metric.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  metric.metricInfo = {};
  for (const Metric& known : kMetrics) {
    if (known.id != metric.metricId) continue;
    metric.nvmlReturn = NVML_SUCCESS;
    metric.value = between.busy_part * known.percent_of_busy;
    if (known.id == NVML_GPM_METRIC_PCIE_TX_PER_SEC) metric.value = between.sent_mib_per_s;
    if (known.id == NVML_GPM_METRIC_PCIE_RX_PER_SEC) metric.value = between.received_mib_per_s;
    // The struct's texts are not const, but callers only read them.
    metric.metricInfo.shortName = const_cast<char*>(known.name);
    metric.metricInfo.longName = const_cast<char*>(known.name);
    metric.metricInfo.unit = const_cast<char*>(known.unit);
    return;
  }
}

}  // namespace
}  // namespace divvy::simgpu

using divvy::simgpu::Device;
using divvy::simgpu::on_device;
using divvy::simgpu::QueryClass;
namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t* support) {
  return on_device(device, sim::kNoClass, {support}, [&](Device& called) {
    if (support->version != NVML_GPM_SUPPORT_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->isSupportedDevice = sim::supports_gpm(called) ? 1 : 0;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t* sample) {
  if (sim::library_state() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (sample == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *sample = std::make_unique<nvmlGpmSample_st>().release();
  return NVML_SUCCESS;
}

SIMGPU_NVML nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
  if (sample == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  delete sample;
  return NVML_SUCCESS;
}

SIMGPU_NVML nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
  return on_device(device, QueryClass::kUtilization, {sample}, [&](Device& called) {
    if (!sim::supports_gpm(called)) return NVML_ERROR_NOT_SUPPORTED;
    *sample = {.taken = true,
               .gpu = called.index,
               .at_ns = sim::now_ns(called.shared()),
               .busy_ns = called.gpu.busy_ns.load(),
               .pcie_sent_bytes = called.gpu.pcie_sent_bytes.load(),
               .pcie_received_bytes = called.gpu.pcie_received_bytes.load()};
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int /*instance*/,
                                             nvmlGpmSample_t sample) {
  return on_device(device, QueryClass::kUtilization, {sample},
                   [](Device&) { return NVML_ERROR_NOT_SUPPORTED; });
}

SIMGPU_NVML nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t* request) {
  if (sim::library_state() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (request == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (request->version != NVML_GPM_METRICS_GET_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const nvmlGpmSample_t first = request->sample1;
  const nvmlGpmSample_t second = request->sample2;
  if (first == nullptr || second == nullptr || !first->taken || !second->taken ||
      first->gpu != second->gpu || request->numMetrics == 0 ||
      request->numMetrics > NVML_GPM_METRIC_MAX) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const sim::Between between = sim::compare(*first, *second);
  for (unsigned int i = 0; i < request->numMetrics; ++i) sim::fill(request->metrics[i], between);
  return NVML_SUCCESS;
}
