// Memory nodes: what a graph may name before its memory exists, and what a launch allocates and
// frees in the order of submission.
//
// Guarded by the driver's mutex.
#pragma once

#include "simgpu/graph.h"

namespace divvy::simgpu {

// The addresses of allocation nodes are fixed long before memory is behind them, and nodes that
// work on them are made and checked in between. While this lives, the memory map knows them all.
class PromisedMemory {
 public:
  explicit PromisedMemory(Driver& driver);
  ~PromisedMemory();
  PromisedMemory(const PromisedMemory&) = delete;
  PromisedMemory& operator=(const PromisedMemory&) = delete;

 private:
  Driver& driver_;
  std::vector<CUdeviceptr> added_;
};

// check_work() for work that becomes a node.
CUresult check_node_work(Driver& driver, const Work& work);

// Whether a node may be added to `graph` that frees `address`: memory of a graph, freed once.
bool may_free(Driver& driver, const Graph& graph, CUdeviceptr address);

// Fills `allocates`, `leaves` and `frees` of an executable.
void collect_memory(GraphExec& exec);
// What a launch does to memory at once: refuses it when an earlier launch's memory was not freed,
// or what it frees is not allocated; takes what is missing. Changes nothing when it fails.
CUresult take_memory(Driver& driver, const GraphExec& exec);

// Gives up the addresses that the allocation nodes of a graph reserved.
void forget_addresses(Driver& driver, const Graph& graph);

}  // namespace divvy::simgpu
