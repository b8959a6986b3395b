// A context that can be gated: the pages as its GPU sees them, and the timing events that launches
// are sampled with. For gate.cc; any thread.
#pragma once

#include <stdint.h>

#include <atomic>

#include "abi/cuda.h"
#include "shim/cost.h"
#include "wire/pages.h"

namespace divvy::shim {

// One launch between two timing events.
struct Sample {
  enum State : uint32_t { kFree, kTaken, kInFlight };
  std::atomic<uint32_t> state = kFree;
  CUevent begin = nullptr;
  CUevent end = nullptr;
  CostEntry* entry = nullptr;
};

constexpr int kSamples = 32;

struct GateContext {
  std::atomic<CUcontext> context = nullptr;  // null: unused
  int slice = 0;
  bool usable = false;             // pages are registered and the driver takes memory operations
  std::atomic<uint64_t> gate = 0;  // device address of the slice's gate
  uint64_t lanes = 0;              // device address of the lanes page
  void* lanes_mapping = nullptr;
  Sample sample[kSamples] = {};
};

// The record of a context, or null. `make`: register it if it is not known yet.
GateContext* find_gate_context(CUcontext context, bool make);

// A sample to bracket a launch of this kind with, or null when none is free or due.
Sample* take_sample(GateContext& context, CostEntry* entry);
// Learns from the samples that the GPU has finished.
void collect_samples(GateContext& context);

void drop_gate_context(CUcontext context);
void renew_gate_addresses();
void gate_contexts_forget_after_fork();

// A short lock for what happens rarely; the launch path takes none of these.
class SpinLock {
 public:
  void lock();
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace divvy::shim
