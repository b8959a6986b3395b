// What a launch is predicted to take on the GPU, learnt from samples: some launches are bracketed
// by timing events (gate.cc), and the table keeps an estimate per kernel and size of grid, or per
// graph. Wait-free; any thread.
#pragma once

#include <stdint.h>

namespace divvy::shim {

// Until a launch was sampled. High enough that batches of unknown kernels stay short.
constexpr uint32_t kUnknownCostNs = 100'000;

struct CostEntry;

// The entry for this key, made if need be. Null when the table is full.
CostEntry* cost_of(uint64_t key);

uint32_t predicted_ns(const CostEntry* entry);

// Counts a use; true when this one should be measured.
bool wants_sample(CostEntry* entry);

// A launch took this long. Somebody else's turn on the GPU may be in it, so a shorter sample is
// believed at once and a longer one slowly.
void learn(CostEntry* entry, uint64_t measured_ns);

uint64_t kernel_key(const void* function, uint64_t blocks);
uint64_t graph_key(const void* graph);

}  // namespace divvy::shim
