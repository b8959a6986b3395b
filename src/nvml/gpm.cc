#include "nvml/gpm.h"

#include <array>
#include <memory>
#include <utility>

#include "nvml/error.h"

namespace divvy::nvml {
namespace {

constexpr std::array kMetrics = {
    NVML_GPM_METRIC_GRAPHICS_UTIL,
    NVML_GPM_METRIC_SM_UTIL,
    NVML_GPM_METRIC_SM_OCCUPANCY,
    NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    NVML_GPM_METRIC_DRAM_BW_UTIL,
    NVML_GPM_METRIC_FP64_UTIL,
    NVML_GPM_METRIC_FP32_UTIL,
    NVML_GPM_METRIC_FP16_UTIL,
    NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
};

// The value of one metric, in the unit that the library gives it.
std::optional<double> value_of(const nvmlGpmMetricsGet_t& answers, nvmlGpmMetricId_t id) {
  for (unsigned int i = 0; i < answers.numMetrics; ++i) {
    const nvmlGpmMetric_t& metric = answers.metrics[i];
    // Negative and "not a number" are the library's ways to say that it could not tell.
    if (metric.metricId == id && metric.nvmlReturn == NVML_SUCCESS && metric.value >= 0) {
      return metric.value;
    }
  }
  return std::nullopt;
}

std::optional<double> part_of(const nvmlGpmMetricsGet_t& answers, nvmlGpmMetricId_t id) {
  const auto percent = value_of(answers, id);
  return percent ? std::optional(*percent / 100) : std::nullopt;
}

std::optional<Throughput> throughput_of(const nvmlGpmMetricsGet_t& answers, nvmlGpmMetricId_t tx,
                                        nvmlGpmMetricId_t rx) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  const auto sent = value_of(answers, tx);
  const auto received = value_of(answers, rx);
  if (!sent || !received) return std::nullopt;
  return Throughput{static_cast<std::uint64_t>(*sent * kMebibyte),
                    static_cast<std::uint64_t>(*received * kMebibyte)};
}

Error missing() { return to_error(NVML_ERROR_FUNCTION_NOT_FOUND); }

}  // namespace

Status Gpm::check_support(nvmlDevice_t device) const {
  if (nvml_.nvmlGpmQueryDeviceSupport == nullptr || nvml_.nvmlGpmSampleAlloc == nullptr ||
      nvml_.nvmlGpmSampleFree == nullptr || nvml_.nvmlGpmSampleGet == nullptr ||
      nvml_.nvmlGpmMetricsGet == nullptr) {
    return err(missing());
  }
  nvmlGpmSupport_t support{};
  support.version = NVML_GPM_SUPPORT_VERSION;
  const nvmlReturn_t code = nvml_.nvmlGpmQueryDeviceSupport(device, &support);
  if (code != NVML_SUCCESS) return err(to_error(code));
  if (support.isSupportedDevice == 0) return err(to_error(NVML_ERROR_NOT_SUPPORTED));
  return {};
}

Result<Activity> Gpm::compare(nvmlGpmSample_t before, nvmlGpmSample_t after) const {
  // Large: it has room for every metric there is.
  const auto answers = std::make_unique<nvmlGpmMetricsGet_t>();
  answers->version = NVML_GPM_METRICS_GET_VERSION;
  answers->numMetrics = static_cast<unsigned int>(kMetrics.size());
  answers->sample1 = before;
  answers->sample2 = after;
  for (std::size_t i = 0; i < kMetrics.size(); ++i) answers->metrics[i].metricId = kMetrics[i];
  const nvmlReturn_t code = nvml_.nvmlGpmMetricsGet(answers.get());
  if (code != NVML_SUCCESS) return err(to_error(code));
  return Activity{.graphics = part_of(*answers, NVML_GPM_METRIC_GRAPHICS_UTIL),
                  .sm = part_of(*answers, NVML_GPM_METRIC_SM_UTIL),
                  .occupancy = part_of(*answers, NVML_GPM_METRIC_SM_OCCUPANCY),
                  .tensor = part_of(*answers, NVML_GPM_METRIC_ANY_TENSOR_UTIL),
                  .dram = part_of(*answers, NVML_GPM_METRIC_DRAM_BW_UTIL),
                  .fp64 = part_of(*answers, NVML_GPM_METRIC_FP64_UTIL),
                  .fp32 = part_of(*answers, NVML_GPM_METRIC_FP32_UTIL),
                  .fp16 = part_of(*answers, NVML_GPM_METRIC_FP16_UTIL),
                  .pcie = throughput_of(*answers, NVML_GPM_METRIC_PCIE_TX_PER_SEC,
                                        NVML_GPM_METRIC_PCIE_RX_PER_SEC),
                  .nvlink = throughput_of(*answers, NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
                                          NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC)};
}

Result<Activity> Gpm::activity(nvmlDevice_t device) {
  DIVVY_RETURN_IF_ERROR(check_support(device));
  nvmlGpmSample_t now = nullptr;
  nvmlReturn_t code = nvml_.nvmlGpmSampleAlloc(&now);
  if (code != NVML_SUCCESS) return err(to_error(code));
  code = nvml_.nvmlGpmSampleGet(device, now);
  if (code != NVML_SUCCESS) {
    nvml_.nvmlGpmSampleFree(now);
    return err(to_error(code));
  }
  const std::lock_guard lock(mutex_);
  const nvmlGpmSample_t before = std::exchange(last_[device], now);
  if (before == nullptr) {
    return err(ErrorCode::kUnavailable, "the GPU's counters were looked at for the first time");
  }
  Result<Activity> compared = compare(before, now);
  nvml_.nvmlGpmSampleFree(before);
  return compared;
}

void Gpm::forget_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [device, sample] : last_) nvml_.nvmlGpmSampleFree(sample);
  last_.clear();
}

}  // namespace divvy::nvml
