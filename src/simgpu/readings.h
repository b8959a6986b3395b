// What the sensors of a simulated GPU show, worked out from the GPU time that programs took.
//
// Nothing is stored: every reading follows from the recent past in the shared state, so that all
// processes see the same values. NVML and `simgpu list` call these from any thread.
#pragma once

#include <cstdint>

#include "simgpu/state.h"

namespace divvy::simgpu {

// How many buckets of the past (kBucketNs each) a reading looks at: NVML's utilisation covers a
// sixth of a second or more; warmth follows more slowly.
constexpr int kUtilizationBuckets = 6;
constexpr int kWarmthBuckets = kBuckets - 1;
constexpr int kPowerBuckets = 30;  // drivers since Ampere answer with the mean of one second

// Busy thousandths in the `buckets` full buckets that ended before `now`.
uint32_t busy_permille(const BusyBuckets& past, uint64_t now, int buckets);

uint32_t utilization_percent(const Shared& shared, const Gpu& gpu);
// How much of the time the memory was busy. Kernels do not say, so it is taken as half.
uint32_t memory_utilization_percent(const Shared& shared, const Gpu& gpu);

int temperature_c(const Shared& shared, const Gpu& gpu);
uint32_t power_limit_mw(const Gpu& gpu);
uint32_t power_mw(const Shared& shared, const Gpu& gpu);
// Since the simulation began; never falls.
uint64_t energy_mj(const Shared& shared, const Gpu& gpu);

// Hot enough that the hardware halves its clocks.
bool overheated(const Shared& shared, const Gpu& gpu);
uint32_t sm_clock_mhz(const Shared& shared, const Gpu& gpu);
uint32_t memory_clock_mhz(const Shared& shared, const Gpu& gpu);
uint32_t performance_state(const Shared& shared, const Gpu& gpu);
// NVML's bits that say why the clocks are lower than they could be.
uint64_t clock_event_reasons(const Shared& shared, const Gpu& gpu);

}  // namespace divvy::simgpu
