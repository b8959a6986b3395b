// What the driver said about one GPU at one moment, and the board on which the latest of each GPU
// hangs. Samples are taken in a process of their own (a stuck driver blocks that one) and read by
// everybody who shows or judges: nobody else asks the driver.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "model/gpu.h"
#include "model/gpu_uuid.h"
#include "nvml/library.h"

namespace divvy::health {

// A field that the GPU does not have, or did not answer, is missing. Never a made-up zero.
struct GpuSample {
  model::GpuIndex index;
  model::GpuUuid uuid;
  WallTime taken;

  std::optional<std::uint32_t> sm_clock_mhz = std::nullopt;
  std::optional<std::uint32_t> memory_clock_mhz = std::nullopt;
  std::optional<std::uint32_t> temperature_c = std::nullopt;
  std::optional<std::uint32_t> slowdown_temperature_c = std::nullopt;
  std::optional<std::uint32_t> memory_temperature_c = std::nullopt;
  std::optional<std::uint32_t> power_mw = std::nullopt;
  std::optional<std::uint64_t> energy_mj = std::nullopt;
  std::optional<std::uint64_t> pcie_replays = std::nullopt;
  std::optional<std::uint32_t> gpu_percent = std::nullopt;
  std::optional<std::uint32_t> memory_percent = std::nullopt;
  std::optional<std::uint32_t> encoder_percent = std::nullopt;
  std::optional<std::uint32_t> decoder_percent = std::nullopt;
  std::optional<Bytes> memory_free = std::nullopt;
  std::optional<Bytes> memory_used = std::nullopt;
  std::optional<Bytes> memory_reserved = std::nullopt;
  std::optional<std::uint64_t> corrected_errors = std::nullopt;    // Since the driver was loaded
  std::optional<std::uint64_t> uncorrected_errors = std::nullopt;  // Since the driver was loaded
  std::optional<std::uint32_t> correctable_rows = std::nullopt;
  std::optional<std::uint32_t> uncorrectable_rows = std::nullopt;
  std::optional<bool> remap_pending = std::nullopt;
  std::optional<bool> remap_failed = std::nullopt;
  std::optional<std::uint64_t> throttle_reasons = std::nullopt;  // NVML's bits
  std::optional<std::uint64_t> power_violation_ns = std::nullopt;
  std::optional<std::uint64_t> thermal_violation_ns = std::nullopt;
  std::optional<std::uint64_t> nvlink_bytes = std::nullopt;
  std::optional<std::uint64_t> pcie_tx_bytes_per_s = std::nullopt;
  std::optional<std::uint64_t> pcie_rx_bytes_per_s = std::nullopt;
  std::optional<std::uint32_t> power_limit_mw = std::nullopt;
  // The last error that the GPU raised. take_sample() leaves it out: whoever waits for the errors
  // writes it here.
  std::optional<std::uint64_t> last_xid = std::nullopt;
  // Parts of the time since the sample before (GPM: Hopper and later).
  std::optional<double> graphics_active = std::nullopt;
  std::optional<double> sm_active = std::nullopt;
  std::optional<double> sm_occupancy = std::nullopt;
  std::optional<double> tensor_active = std::nullopt;
  std::optional<double> dram_active = std::nullopt;
  std::optional<double> fp64_active = std::nullopt;
  std::optional<double> fp32_active = std::nullopt;
  std::optional<double> fp16_active = std::nullopt;
  std::optional<std::uint64_t> nvlink_tx_bytes_per_s = std::nullopt;
  std::optional<std::uint64_t> nvlink_rx_bytes_per_s = std::nullopt;
};

// Calls `visit(field)` with every optional field of the sample, always in the same order: for who
// carries samples from process to process. `Sample` is GpuSample or const GpuSample.
template <typename Sample, typename Visit>
void visit_fields(Sample& sample, Visit&& visit) {
  visit(sample.sm_clock_mhz);
  visit(sample.memory_clock_mhz);
  visit(sample.temperature_c);
  visit(sample.slowdown_temperature_c);
  visit(sample.memory_temperature_c);
  visit(sample.power_mw);
  visit(sample.energy_mj);
  visit(sample.pcie_replays);
  visit(sample.gpu_percent);
  visit(sample.memory_percent);
  visit(sample.encoder_percent);
  visit(sample.decoder_percent);
  visit(sample.memory_free);
  visit(sample.memory_used);
  visit(sample.memory_reserved);
  visit(sample.corrected_errors);
  visit(sample.uncorrected_errors);
  visit(sample.correctable_rows);
  visit(sample.uncorrectable_rows);
  visit(sample.remap_pending);
  visit(sample.remap_failed);
  visit(sample.throttle_reasons);
  visit(sample.power_violation_ns);
  visit(sample.thermal_violation_ns);
  visit(sample.nvlink_bytes);
  visit(sample.pcie_tx_bytes_per_s);
  visit(sample.pcie_rx_bytes_per_s);
  visit(sample.power_limit_mw);
  visit(sample.last_xid);
  visit(sample.graphics_active);
  visit(sample.sm_active);
  visit(sample.sm_occupancy);
  visit(sample.tensor_active);
  visit(sample.dram_active);
  visit(sample.fp64_active);
  visit(sample.fp32_active);
  visit(sample.fp16_active);
  visit(sample.nvlink_tx_bytes_per_s);
  visit(sample.nvlink_rx_bytes_per_s);
}

// Asks the driver everything, one question after the other: callable from any thread, and it may
// take as long as the driver takes.
[[nodiscard]] GpuSample take_sample(nvml::Library& library, nvml::Device device,
                                    model::GpuIndex index, const model::GpuUuid& uuid,
                                    WallTime now);

// Thread-safe.
class SampleBoard {
 public:
  void put(GpuSample sample) {
    const std::lock_guard lock(mutex_);
    const auto uuid = sample.uuid;
    latest_.insert_or_assign(uuid, std::move(sample));
  }
  // By UUID. A GPU that was never sampled is missing; the age of the others is theirs to tell.
  [[nodiscard]] std::vector<GpuSample> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<GpuSample> result;
    result.reserve(latest_.size());
    for (const auto& [uuid, sample] : latest_) result.push_back(sample);
    return result;
  }

 private:
  mutable std::mutex mutex_;
  std::map<model::GpuUuid, GpuSample> latest_;
};

}  // namespace divvy::health
