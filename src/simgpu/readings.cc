#include "simgpu/readings.h"

#include <algorithm>

#include "abi/nvml.h"

namespace divvy::simgpu {
namespace {

constexpr int kIdleC = 30;
constexpr int kFullLoadC = 65;
constexpr uint32_t kIdleMhz = 345;
constexpr uint32_t kIdleGddrMhz = 405;
constexpr uint32_t kPstateIdle = 8;
constexpr uint32_t kHbmBusBits = 4096;

// Stacked memory runs at one clock; GDDR, and the GPU with it, goes to a lower state when idle.
bool has_hbm(const GpuSpec& spec) { return spec.memory_bus_bits >= kHbmBusBits; }

bool busy_lately(const Shared& shared, const Gpu& gpu) {
  const uint64_t now = now_ns(shared);
  // The bucket of this moment counts too: work that began a millisecond ago raises the clocks.
  return busy_permille(gpu.buckets, now + kBucketNs, 2) > 0;
}

// What work draws on top of idling. Ordinary training stays well below the limit: ResNet-50 drew
// 420 W of an H200's 700.
uint64_t working_range_mw(const GpuSpec& spec) {
  return uint64_t{spec.power_limit_mw - spec.idle_power_mw} * 6 / 10;
}

}  // namespace

uint32_t busy_permille(const BusyBuckets& past, uint64_t now, int buckets) {
  uint64_t window_ns = 0;
  const uint64_t busy_ns = busy_in_window(past, now, buckets, &window_ns);
  if (window_ns == 0) return 0;
  const uint64_t permille = (busy_ns * 1000 + window_ns / 2) / window_ns;
  // Any work at all must show: a GPU that did something is not idle.
  if (permille == 0 && busy_ns > 0) return 1;
  return static_cast<uint32_t>(std::min<uint64_t>(permille, 1000));
}

uint32_t utilization_percent(const Shared& shared, const Gpu& gpu) {
  return (busy_permille(gpu.buckets, now_ns(shared), kUtilizationBuckets) + 5) / 10;
}

uint32_t memory_utilization_percent(const Shared& shared, const Gpu& gpu) {
  return utilization_percent(shared, gpu) / 2;
}

int temperature_c(const Shared& shared, const Gpu& gpu) {
  if (const int held = gpu.faults.temperature_c.load(); held != 0) return held;
  const auto warm = static_cast<int>(busy_permille(gpu.buckets, now_ns(shared), kWarmthBuckets));
  return kIdleC + (kFullLoadC - kIdleC) * warm / 1000;
}

uint32_t power_limit_mw(const Gpu& gpu) {
  const uint32_t set = gpu.settings.power_limit_mw.load();
  return set != 0 ? set : gpu.spec.power_limit_mw;
}

uint32_t power_mw(const Shared& shared, const Gpu& gpu) {
  const uint64_t load = busy_permille(gpu.buckets, now_ns(shared), kPowerBuckets);
  const uint64_t range = working_range_mw(gpu.spec);
  const auto drawn = static_cast<uint32_t>(gpu.spec.idle_power_mw + range * load / 1000);
  return std::min(drawn, power_limit_mw(gpu));
}

uint64_t energy_mj(const Shared& shared, const Gpu& gpu) {
  // Power grows in proportion to the load, so its integral needs only the sum of all busy time.
  const bool manual = shared.clock_mode == static_cast<uint32_t>(ClockMode::kManual);
  const uint64_t lived_ns = now_ns(shared) - (manual ? 0 : shared.created_ns);
  const uint64_t range = working_range_mw(gpu.spec);
  constexpr uint64_t kUs = 1'000;
  return lived_ns / kUs * gpu.spec.idle_power_mw / 1'000'000 +
         gpu.busy_ns.load() / kUs * range / 1'000'000;
}

bool overheated(const Shared& shared, const Gpu& gpu) {
  return temperature_c(shared, gpu) >= static_cast<int>(gpu.spec.slowdown_c);
}

uint32_t sm_clock_mhz(const Shared& shared, const Gpu& gpu) {
  uint32_t mhz = busy_lately(shared, gpu) ? gpu.spec.clock_mhz : kIdleMhz;
  if (const uint32_t highest = gpu.settings.locked_max_mhz.load(); highest != 0) {
    const uint32_t lowest = std::min(gpu.settings.locked_min_mhz.load(), highest);
    mhz = std::clamp(mhz, lowest, highest);
  }
  return overheated(shared, gpu) ? std::min(mhz, gpu.spec.clock_mhz / 2) : mhz;
}

uint32_t memory_clock_mhz(const Shared& shared, const Gpu& gpu) {
  const bool low = !has_hbm(gpu.spec) && !busy_lately(shared, gpu);
  return low ? kIdleGddrMhz : gpu.spec.memory_clock_mhz;
}

uint32_t performance_state(const Shared& shared, const Gpu& gpu) {
  return !has_hbm(gpu.spec) && !busy_lately(shared, gpu) ? kPstateIdle : 0;
}

uint64_t clock_event_reasons(const Shared& shared, const Gpu& gpu) {
  if (overheated(shared, gpu)) {
    return nvmlClocksThrottleReasonHwSlowdown | nvmlClocksThrottleReasonHwThermalSlowdown;
  }
  uint64_t reasons = nvmlClocksEventReasonNone;
  if (!busy_lately(shared, gpu)) reasons |= nvmlClocksEventReasonGpuIdle;
  if (power_mw(shared, gpu) >= power_limit_mw(gpu) &&
      power_limit_mw(gpu) < gpu.spec.power_limit_mw) {
    reasons |= nvmlClocksEventReasonSwPowerCap;
  }
  if (gpu.settings.locked_max_mhz.load() != 0) {
    reasons |= nvmlClocksEventReasonApplicationsClocksSetting;
  }
  return reasons;
}

}  // namespace divvy::simgpu
