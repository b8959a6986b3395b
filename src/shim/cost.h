// What a launch is predicted to take on the GPU, learnt from samples: some launches are bracketed
// by timing events (sample.h), and the table keeps an estimate per kernel and size of grid, or per
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
bool is_measured(const CostEntry* entry);

// Counts a use; true when this one should be measured: some of the first, then every 1024th. Never
// the very first, which may load code or resize local memory and synchronise the context for it.
bool wants_sample(CostEntry* entry);
// A sample was begun, so that launches that run ahead of the GPU are not all measured; and one came
// to nothing.
void sample_begun(CostEntry* entry);
void sample_dropped(CostEntry* entry);

// A launch took this long on the GPU: a running mean, because what is predicted is also what a
// tenant is charged, and a minimum would undercharge kernels whose cost varies. Another tenant's
// time slice may lie inside a sample; one of more than four times the estimate counts as four
// times, and with half the weight.
void learn(CostEntry* entry, uint64_t measured_ns);

uint64_t kernel_key(const void* function, uint64_t blocks);
uint64_t graph_key(const void* graph);

}  // namespace divvy::shim
