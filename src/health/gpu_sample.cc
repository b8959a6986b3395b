#include "health/gpu_sample.h"

namespace divvy::health {
namespace {

// What was answered, or nothing.
template <typename T>
std::optional<T> if_answered(const Result<T>& answer) {
  return answer ? std::optional<T>(*answer) : std::nullopt;
}

void ask_memory(nvml::Library& library, nvml::Device device, GpuSample& sample) {
  const auto memory = library.memory(device);
  if (!memory) return;
  sample.memory_used = memory->used;
  sample.memory_reserved = memory->reserved;
  const std::uint64_t taken = memory->used.count() + memory->reserved.count();
  const std::uint64_t total = memory->total.count();
  sample.memory_free = Bytes(total > taken ? total - taken : 0);
}

void ask_load(nvml::Library& library, nvml::Device device, GpuSample& sample) {
  if (const auto rates = library.utilization(device)) {
    sample.gpu_percent = rates->gpu_percent;
    sample.memory_percent = rates->memory_percent;
  }
  sample.encoder_percent = if_answered(library.encoder_percent(device));
  sample.decoder_percent = if_answered(library.decoder_percent(device));
}

void ask_errors(nvml::Library& library, nvml::Device device, GpuSample& sample) {
  sample.corrected_errors = if_answered(library.corrected_memory_errors(device));
  sample.uncorrected_errors = if_answered(library.uncorrected_memory_errors(device));
  if (const auto rows = library.remapped_rows(device)) {
    sample.correctable_rows = rows->correctable;
    sample.uncorrectable_rows = rows->uncorrectable;
    sample.remap_pending = rows->pending;
    sample.remap_failed = rows->failed;
  }
}

void ask_clocks(nvml::Library& library, nvml::Device device, GpuSample& sample) {
  sample.sm_clock_mhz = if_answered(library.clock_mhz(device, nvml::ClockDomain::kSm));
  sample.memory_clock_mhz = if_answered(library.clock_mhz(device, nvml::ClockDomain::kMemory));
  sample.throttle_reasons = if_answered(library.clock_event_reasons(device));
  if (const auto limits = library.clock_limits(device)) {
    sample.power_violation_ns = static_cast<std::uint64_t>(limits->by_power.count());
    sample.thermal_violation_ns = static_cast<std::uint64_t>(limits->by_heat.count());
  }
}

// GPM tells of the traffic since the sample before; where there is none, the driver counts what
// goes over PCI Express for a moment.
void ask_activity(nvml::Library& library, nvml::Device device, GpuSample& sample) {
  const auto activity = library.activity(device);
  std::optional<nvml::Throughput> pcie;
  if (activity) {
    sample.graphics_active = activity->graphics;
    sample.sm_active = activity->sm;
    sample.sm_occupancy = activity->occupancy;
    sample.tensor_active = activity->tensor;
    sample.dram_active = activity->dram;
    sample.fp64_active = activity->fp64;
    sample.fp32_active = activity->fp32;
    sample.fp16_active = activity->fp16;
    pcie = activity->pcie;
    if (activity->nvlink) {
      sample.nvlink_tx_bytes_per_s = activity->nvlink->sent;
      sample.nvlink_rx_bytes_per_s = activity->nvlink->received;
    }
  }
  if (!pcie) pcie = if_answered(library.pcie_throughput(device));
  if (pcie) {
    sample.pcie_tx_bytes_per_s = pcie->sent;
    sample.pcie_rx_bytes_per_s = pcie->received;
  }
}

}  // namespace

GpuSample take_sample(nvml::Library& library, nvml::Device device, model::GpuIndex index,
                      const model::GpuUuid& uuid, WallTime now) {
  GpuSample sample{.index = index, .uuid = uuid, .taken = now};
  sample.temperature_c = if_answered(library.temperature_c(device));
  sample.slowdown_temperature_c = if_answered(library.slowdown_temperature_c(device));
  sample.memory_temperature_c = if_answered(library.memory_temperature_c(device));
  sample.power_mw = if_answered(library.power_mw(device));
  sample.power_limit_mw = if_answered(library.power_limit_mw(device));
  sample.energy_mj = if_answered(library.energy_mj(device));
  sample.pcie_replays = if_answered(library.pcie_replays(device));
  sample.nvlink_bytes = if_answered(library.nvlink_bytes(device));
  ask_load(library, device, sample);
  ask_memory(library, device, sample);
  ask_errors(library, device, sample);
  ask_clocks(library, device, sample);
  ask_activity(library, device, sample);
  return sample;
}

}  // namespace divvy::health
