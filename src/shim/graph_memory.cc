#include "shim/graph_memory.h"

#include <sys/mman.h>

#include "shim/real.h"

namespace divvy::shim {

constinit std::atomic<bool> g_graphs_allocate = false;

namespace {

// Executable graphs that allocate: `bytes` at most at a time, `count` is the device.
constinit AllocationTable g_execs;
// What alloc nodes allocate, by address, so that a free node tells how much it frees.
constinit AllocationTable g_addresses;

struct Demand {
  CUdevice device = CU_DEVICE_INVALID;
  uint64_t now = 0;
  uint64_t peak = 0;
};

void look_at(CUgraph graph, Demand* demand, int depth);

void look_at_node(CUgraphNode node, Demand* demand, int depth) {
  CUgraphNodeType type{};
  if (g_cuda.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return;
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
    if (g_cuda.cuGraphMemAllocNodeGetParams(node, &alloc) != CUDA_SUCCESS) return;
    if (alloc.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      demand->device = alloc.poolProps.location.id;
    }
    demand->now += alloc.bytesize;
    if (demand->now > demand->peak) demand->peak = demand->now;
    Allocation made;
    made.bytes = alloc.bytesize;
    g_addresses.insert(alloc.dptr, made);
  } else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    CUdeviceptr freed = 0;
    Allocation made;
    if (g_cuda.cuGraphMemFreeNodeGetParams(node, &freed) == CUDA_SUCCESS &&
        g_addresses.find(freed, &made)) {
      demand->now = demand->now > made.bytes ? demand->now - made.bytes : 0;
    }
  } else if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    CUgraph child = nullptr;
    if (g_cuda.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
      look_at(child, demand, depth + 1);
    }
  }
}

// The nodes in the order in which they were made, which is one in which they can run. Branches that
// run side by side may need more; what they took is charged after the launch.
void look_at(CUgraph graph, Demand* demand, int depth) {
  size_t count = 0;
  if (depth > 16 || g_cuda.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) {
    return;
  }
  const size_t bytes = count * sizeof(CUgraphNode);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  auto* nodes = static_cast<CUgraphNode*>(memory);
  if (g_cuda.cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS) {
    for (size_t i = 0; i < count; ++i) look_at_node(nodes[i], demand, depth);
  }
  munmap(memory, bytes);
}

}  // namespace

void graph_memory_seen() { g_graphs_allocate.store(true, std::memory_order_relaxed); }

void graph_instantiated(CUgraphExec exec, CUgraph graph) {
  if (!g_graphs_allocate.load(std::memory_order_relaxed)) return;
  Demand demand;
  look_at(graph, &demand, 0);
  if (demand.peak == 0 || demand.device < 0) return;
  Allocation need;
  need.bytes = demand.peak;
  need.family = Family::kGraph;
  need.count = static_cast<uint32_t>(demand.device);
  g_execs.insert(reinterpret_cast<uint64_t>(exec), need);
}

void graph_forgotten(CUgraphExec exec) {
  Allocation need;
  if (g_execs.remove(reinterpret_cast<uint64_t>(exec), &need)) {
    g_pools_stale.store(true, std::memory_order_relaxed);
  }
}

void GraphRoom::enter(CUgraphExec exec) {
  Allocation need;
  if (standing() != Standing::kTenant || !g_execs.find(reinterpret_cast<uint64_t>(exec), &need)) {
    return;
  }
  const PoolIndex pool = graph_pool_index(static_cast<CUdevice>(need.count));
  const int slice = pool_slice(pool);
  if (!account_of(slice, &account_)) return;
  pool_settle(pool);
  const uint64_t idle = pool_idle(pool);
  const uint64_t missing = need.bytes > idle ? need.bytes - idle : 0;
  reserved_ = (missing + kPoolStepBytes - 1) / kPoolStepBytes * kPoolStepBytes;
  uint64_t in_use = 0;
  refused_ = !take(account_, reserved_, &in_use) &&
             !(pools_give_up(slice) && take(account_, reserved_, &in_use));
  if (!refused_) pool_ = pool;
}

void GraphRoom::leave() {
  pool_settle(pool_);
  // The process may have another slot by now.
  uncharge_slice(account_.gpu, reserved_);
}

void forget_graphs_of_parent() {
  g_execs.clear();
  g_addresses.clear();
  g_graphs_allocate.store(false);
}

}  // namespace divvy::shim
