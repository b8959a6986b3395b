// Which lane a stream has. Reading is wait-free; making and removing takes a short lock. Any
// thread.
#pragma once

#include <stdint.h>

#include <atomic>

#include "abi/cuda.h"
#include "shim/gate_context.h"
#include "wire/pages.h"

namespace divvy::shim {

// A lane as this process keeps it, beside what it shares (wire::Lane).
struct GatedLane {
  SpinLock busy;  // held from before a launch until after it; others only try
  std::atomic<uint64_t> key = 0;
  wire::Lane* lane = nullptr;
  GateContext* context = nullptr;
  // Never the null stream: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD instead.
  CUstream stream = nullptr;
  uint32_t batch = 0;  // number of the last batch begun
  std::atomic<bool> open = false;
  uint64_t filled_ns = 0;              // predicted cost of the open batch so far
  std::atomic<uint32_t> launches = 0;  // for the watcher, which sees silence in it
  uint32_t launches_seen = 0;
};

// The stream's lane, made if need be; null when it cannot be gated.
GatedLane* lane_of(CUstream stream, bool per_thread);
// The same, never made.
GatedLane* existing_lane(CUstream stream, bool per_thread);

// The stream is about to be gone; the caller holds `busy` and has closed its last batch.
void retire_lane(GatedLane& lane);
// The context is gone: nothing of its lanes will happen any more.
void free_lanes_of(const GateContext& context);

// For whoever walks all lanes: [0, lane_high()).
int lane_high();
GatedLane& lane_at(int index);

void lanes_forget_after_fork();

}  // namespace divvy::shim
