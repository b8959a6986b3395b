// The GPUs as dcgm-exporter shows them: the same names, units and labels, so that dashboards and
// alerts made for it work as they are. Values come from the sample board.
#include <array>

#include "api/metrics.h"

namespace divvy::api {
namespace {

using health::GpuSample;
using Type = Exposition::Type;

struct Field {
  const char* name;
  Type type;
  const char* help;
  std::optional<double> (*read)(const GpuSample& sample);
};

// A number of the sample as it is, if it is there.
template <auto kField>
std::optional<double> number(const GpuSample& sample) {
  const auto& field = sample.*kField;
  return field ? std::optional<double>(static_cast<double>(*field)) : std::nullopt;
}

template <auto kField>
std::optional<double> from_thousandths(const GpuSample& sample) {
  const auto& field = sample.*kField;
  return field ? std::optional<double>(static_cast<double>(*field) / 1000.0) : std::nullopt;
}

template <auto kField>
std::optional<double> mebibytes(const GpuSample& sample) {
  const std::optional<Bytes>& field = sample.*kField;
  return field ? std::optional<double>(static_cast<double>(field->count() >> 20U)) : std::nullopt;
}

std::optional<double> nvlink_kibibytes(const GpuSample& sample) {
  if (!sample.nvlink_bytes) return std::nullopt;
  return static_cast<double>(*sample.nvlink_bytes >> 10U);
}

constexpr std::array kFields = {
    Field{"DCGM_FI_DEV_SM_CLOCK", Type::kGauge, "SM clock frequency (in MHz).",
          number<&GpuSample::sm_clock_mhz>},
    Field{"DCGM_FI_DEV_MEM_CLOCK", Type::kGauge, "Memory clock frequency (in MHz).",
          number<&GpuSample::memory_clock_mhz>},
    Field{"DCGM_FI_DEV_MEMORY_TEMP", Type::kGauge, "Memory temperature (in C).",
          number<&GpuSample::memory_temperature_c>},
    Field{"DCGM_FI_DEV_GPU_TEMP", Type::kGauge, "GPU temperature (in C).",
          number<&GpuSample::temperature_c>},
    Field{"DCGM_FI_DEV_SLOWDOWN_TEMP", Type::kGauge,
          "Temperature from which the clocks are lowered (in C).",
          number<&GpuSample::slowdown_temperature_c>},
    Field{"DCGM_FI_DEV_POWER_USAGE", Type::kGauge, "Power draw (in W).",
          from_thousandths<&GpuSample::power_mw>},
    Field{"DCGM_FI_DEV_POWER_MGMT_LIMIT", Type::kGauge, "Power limit in force (in W).",
          from_thousandths<&GpuSample::power_limit_mw>},
    Field{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Type::kCounter,
          "Energy used since the driver was loaded (in mJ).", number<&GpuSample::energy_mj>},
    Field{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Type::kCounter, "PCI Express retries.",
          number<&GpuSample::pcie_replays>},
    Field{"DCGM_FI_DEV_GPU_UTIL", Type::kGauge, "GPU utilization (in %).",
          number<&GpuSample::gpu_percent>},
    Field{"DCGM_FI_DEV_MEM_COPY_UTIL", Type::kGauge, "Memory utilization (in %).",
          number<&GpuSample::memory_percent>},
    Field{"DCGM_FI_DEV_ENC_UTIL", Type::kGauge, "Encoder utilization (in %).",
          number<&GpuSample::encoder_percent>},
    Field{"DCGM_FI_DEV_DEC_UTIL", Type::kGauge, "Decoder utilization (in %).",
          number<&GpuSample::decoder_percent>},
    Field{"DCGM_FI_DEV_XID_ERRORS", Type::kGauge, "The last XID error; 0 when there was none.",
          number<&GpuSample::last_xid>},
    Field{"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", Type::kGauge,
          "Why the clocks are held back now, as bits of NVML.",
          number<&GpuSample::throttle_reasons>},
    Field{"DCGM_FI_DEV_POWER_VIOLATION", Type::kCounter,
          "Time in which clocks were held back to save power (in ns).",
          number<&GpuSample::power_violation_ns>},
    Field{"DCGM_FI_DEV_THERMAL_VIOLATION", Type::kCounter,
          "Time in which clocks were held back to cool down (in ns).",
          number<&GpuSample::thermal_violation_ns>},
    Field{"DCGM_FI_DEV_FB_FREE", Type::kGauge, "Free device memory (in MiB).",
          mebibytes<&GpuSample::memory_free>},
    Field{"DCGM_FI_DEV_FB_USED", Type::kGauge, "Used device memory (in MiB).",
          mebibytes<&GpuSample::memory_used>},
    Field{"DCGM_FI_DEV_FB_RESERVED", Type::kGauge,
          "Device memory that the driver keeps for itself (in MiB).",
          mebibytes<&GpuSample::memory_reserved>},
    Field{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", Type::kCounter,
          "Corrected memory errors since the driver was loaded.",
          number<&GpuSample::corrected_errors>},
    Field{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Type::kCounter,
          "Uncorrected memory errors since the driver was loaded.",
          number<&GpuSample::uncorrected_errors>},
    Field{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", Type::kCounter,
          "Memory rows replaced after uncorrectable errors.",
          number<&GpuSample::uncorrectable_rows>},
    Field{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", Type::kCounter,
          "Memory rows replaced after correctable errors.", number<&GpuSample::correctable_rows>},
    Field{"DCGM_FI_DEV_ROW_REMAP_FAILURE", Type::kGauge,
          "Whether a memory row could not be replaced.", number<&GpuSample::remap_failed>},
    Field{"DCGM_FI_DEV_ROW_REMAP_PENDING", Type::kGauge,
          "Whether a memory row is replaced at the next reset.", number<&GpuSample::remap_pending>},
    Field{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", Type::kCounter,
          "Data over all NVLinks in both directions (in KiB).", nvlink_kibibytes},
    Field{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", Type::kGauge,
          "Ratio of time in which the graphics or compute engine was active.",
          number<&GpuSample::graphics_active>},
    Field{"DCGM_FI_PROF_SM_ACTIVE", Type::kGauge,
          "Ratio of cycles in which a multiprocessor had a warp, over all of them.",
          number<&GpuSample::sm_active>},
    Field{"DCGM_FI_PROF_SM_OCCUPANCY", Type::kGauge,
          "Ratio of resident warps to those that could be.", number<&GpuSample::sm_occupancy>},
    Field{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Type::kGauge,
          "Ratio of cycles in which the tensor pipe was active.",
          number<&GpuSample::tensor_active>},
    Field{"DCGM_FI_PROF_DRAM_ACTIVE", Type::kGauge,
          "Ratio of cycles in which device memory sent or received.",
          number<&GpuSample::dram_active>},
    Field{"DCGM_FI_PROF_PIPE_FP64_ACTIVE", Type::kGauge,
          "Ratio of cycles in which the FP64 pipe was active.", number<&GpuSample::fp64_active>},
    Field{"DCGM_FI_PROF_PIPE_FP32_ACTIVE", Type::kGauge,
          "Ratio of cycles in which the FP32 pipe was active.", number<&GpuSample::fp32_active>},
    Field{"DCGM_FI_PROF_PIPE_FP16_ACTIVE", Type::kGauge,
          "Ratio of cycles in which the FP16 pipe was active.", number<&GpuSample::fp16_active>},
    Field{"DCGM_FI_PROF_PCIE_TX_BYTES", Type::kGauge,
          "Data sent over PCI Express (in bytes per second).",
          number<&GpuSample::pcie_tx_bytes_per_s>},
    Field{"DCGM_FI_PROF_PCIE_RX_BYTES", Type::kGauge,
          "Data received over PCI Express (in bytes per second).",
          number<&GpuSample::pcie_rx_bytes_per_s>},
    Field{"DCGM_FI_PROF_NVLINK_TX_BYTES", Type::kGauge,
          "Data sent over NVLink (in bytes per second).",
          number<&GpuSample::nvlink_tx_bytes_per_s>},
    Field{"DCGM_FI_PROF_NVLINK_RX_BYTES", Type::kGauge,
          "Data received over NVLink (in bytes per second).",
          number<&GpuSample::nvlink_rx_bytes_per_s>},
};

// As dcgm-exporter names a GPU. What the driver does not tell is left out.
Labels dcgm_labels(const GpuSample& sample, const model::Node& node, bool old_hostname) {
  Labels labels = gpu_labels(sample.index, sample.uuid);
  if (const auto place = node.find(sample.uuid)) {
    const model::Gpu& gpu = node.gpus()[*place];
    if (gpu.pci) labels.add("pci_bus_id", to_string(*gpu.pci));
    if (gpu.minor_number) labels.add("device", fmt::format("nvidia{}", *gpu.minor_number));
    if (gpu.name) labels.add("modelName", *gpu.name);
  }
  labels.add("hostname", node.hostname());
  if (old_hostname) labels.add("Hostname", node.hostname());
  if (node.driver_version()) labels.add("DCGM_FI_DRIVER_VERSION", *node.driver_version());
  return labels;
}

}  // namespace

void write_gpu_metrics(const MetricsSnapshot& snapshot, const MetricsOptions& options,
                       Exposition& out) {
  std::vector<const GpuSample*> fresh;
  std::vector<Labels> labels;
  for (const GpuSample& sample : snapshot.samples) {
    if (age_of(sample, snapshot.now) > options.oldest_sample) continue;
    fresh.push_back(&sample);
    labels.push_back(dcgm_labels(sample, snapshot.node, options.old_hostname_label));
  }
  for (const Field& field : kFields) {
    out.begin(field.name, field.type, field.help);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      if (const auto value = field.read(*fresh[i])) out.add(labels[i], *value);
    }
  }
}

}  // namespace divvy::api
