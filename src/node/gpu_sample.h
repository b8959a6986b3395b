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

namespace divvy::node {

// A field that the GPU does not have, or did not answer, is missing. Never a made-up zero.
struct GpuSample {
  model::GpuIndex index;
  model::GpuUuid uuid;
  WallTime taken;

  std::optional<std::uint32_t> sm_clock_mhz;
  std::optional<std::uint32_t> memory_clock_mhz;
  std::optional<std::uint32_t> temperature_c;
  std::optional<std::uint32_t> slowdown_temperature_c;
  std::optional<std::uint32_t> memory_temperature_c;
  std::optional<std::uint32_t> power_mw;
  std::optional<std::uint64_t> energy_mj;
  std::optional<std::uint64_t> pcie_replays;
  std::optional<std::uint32_t> gpu_percent;
  std::optional<std::uint32_t> memory_percent;
  std::optional<std::uint32_t> encoder_percent;
  std::optional<std::uint32_t> decoder_percent;
  std::optional<Bytes> memory_free;
  std::optional<Bytes> memory_used;
  std::optional<Bytes> memory_reserved;
  std::optional<std::uint64_t> corrected_errors;    // Since the driver was loaded
  std::optional<std::uint64_t> uncorrected_errors;  // Since the driver was loaded
  std::optional<std::uint32_t> correctable_rows;
  std::optional<std::uint32_t> uncorrectable_rows;
  std::optional<bool> remap_pending;
  std::optional<bool> remap_failed;
  std::optional<std::uint64_t> throttle_reasons;  // NVML's bits
  std::optional<std::uint64_t> power_violation_ns;
  std::optional<std::uint64_t> thermal_violation_ns;
  std::optional<std::uint64_t> nvlink_bytes;
  std::optional<std::uint64_t> pcie_tx_bytes_per_s;
  std::optional<std::uint64_t> pcie_rx_bytes_per_s;
};

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

}  // namespace divvy::node
