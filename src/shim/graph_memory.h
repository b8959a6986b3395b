// Memory that graphs allocate when they run.
//
// A node only fixes an address. The driver takes the memory when the graph is first launched or
// uploaded, from a reserve that each device keeps for graphs; that reserve is charged like a pool.
// How much a graph will need is reckoned when it is instantiated. Any thread.
#pragma once

#include <atomic>

#include "abi/cuda.h"
#include "shim/charge.h"
#include "shim/pools.h"

namespace divvy::shim {

// Set once the process has made a node that allocates; until then nothing below does anything.
extern constinit std::atomic<bool> g_graphs_allocate;
void graph_memory_seen();

// A graph was made executable; the executable is forgotten.
void graph_instantiated(CUgraphExec exec, CUgraph graph);
void graph_forgotten(CUgraphExec exec);

// Around the real launch or upload of an executable graph.
class GraphRoom {
 public:
  explicit GraphRoom(CUgraphExec exec) {
    if (__builtin_expect(g_graphs_allocate.load(std::memory_order_relaxed), 0)) enter(exec);
  }
  ~GraphRoom() {
    if (pool_ != 0) leave();
  }
  GraphRoom(const GraphRoom&) = delete;
  GraphRoom& operator=(const GraphRoom&) = delete;
  // The slice has no room for what the graph allocates.
  [[nodiscard]] bool refused() const { return refused_; }

 private:
  void enter(CUgraphExec exec);
  void leave();

  PoolIndex pool_ = 0;
  SliceAccount account_{};
  uint64_t reserved_ = 0;
  bool refused_ = false;
};

// A pointer that no table has was freed: it may have been a graph's.
inline void unknown_memory_freed() {
  if (g_graphs_allocate.load(std::memory_order_relaxed)) {
    g_pools_stale.store(true, std::memory_order_relaxed);
  }
}

void forget_graphs_of_parent();

}  // namespace divvy::shim
