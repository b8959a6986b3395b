// Which lane a stream has. Reading is wait-free; making and removing takes a short lock. Any
// thread.
#pragma once

#include <stdint.h>

#include <atomic>

#include "abi/cuda.h"
#include "shim/gate_context.h"
#include "shim/spin_lock.h"
#include "wire/pages.h"

namespace divvy::shim {

// A lane as this process keeps it, beside what it shares (wire::Lane). What is not atomic belongs
// to whoever holds `busy`.
struct GatedLane {
  SpinLock busy;  // held from before a launch until after it; others only try
  std::atomic<uint64_t> key = 0;
  std::atomic<wire::Lane*> lane = nullptr;
  uint64_t address = 0;  // of `lane`, as the GPU has it
  std::atomic<GateContext*> context = nullptr;
  // Never the null stream: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD instead.
  std::atomic<CUstream> stream = nullptr;
  std::atomic<bool> blocking = false;  // waits for the legacy stream, and that for it
  std::atomic<uint64_t> thread = 0;    // of a per-thread stream
  // Number of the last batch begun: its `passed` is in the stream. Only who holds `busy` writes it.
  std::atomic<uint32_t> batch = 0;
  std::atomic<bool> open = false;
  // Somebody who could not have the lane wants its batch closed before anything else goes in.
  std::atomic<bool> close_asked = false;
  bool unmeasured = false;             // a kernel that was never measured is alone in the batch
  uint64_t filled_ns = 0;              // predicted cost of the open batch so far
  std::atomic<uint32_t> launches = 0;  // for the watcher, which sees silence in it
  uint32_t launches_seen = 0;          // by the watcher, like the next
  uint32_t silent_looks = 0;

  [[nodiscard]] bool is_legacy() const { return stream.load() == CU_STREAM_LEGACY; }
  [[nodiscard]] bool is_per_thread() const { return stream.load() == CU_STREAM_PER_THREAD; }
};

// The stream's lane with `busy` held, made if need be; null when it cannot be gated.
GatedLane* hold_lane(CUstream stream, bool per_thread);
// The same, never made.
GatedLane* hold_existing_lane(CUstream stream, bool per_thread);
// Without `busy`: it may be another stream's in a moment.
GatedLane* existing_lane(CUstream stream, bool per_thread);

// With `busy` held: the stream is about to be gone and its last batch is closed.
void retire_lane(GatedLane& lane);
// With `busy` held: its context is gone, nothing of it will happen any more.
void free_lane(GatedLane& lane);

// For whoever walks all lanes: [0, lane_high()).
int lane_high();
GatedLane& lane_at(int index);

// Number of the calling thread, which has lanes of its own for per-thread streams.
uint64_t this_thread();

void lanes_forget_after_fork();

}  // namespace divvy::shim
