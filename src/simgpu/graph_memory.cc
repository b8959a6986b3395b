#include "simgpu/graph_memory.h"

#include <algorithm>

#include "simgpu/memory.h"

namespace divvy::simgpu {
namespace {

void show(Driver& driver, CUdeviceptr address, const GraphMemory::Node& node) {
  Allocation allocation;
  allocation.base = address;
  allocation.size = node.bytes;
  allocation.kind = MemoryKind::kGraph;
  allocation.device = node.device;
  driver.map().insert(allocation);
}

// In the order of submission: freeing takes an address off the map at once, although the memory
// itself goes only when the stream gets there.
bool allocated(Driver& driver, CUdeviceptr address) {
  const Allocation* found = driver.map().find(address);
  return found != nullptr && found->base == address && found->kind == MemoryKind::kGraph;
}

}  // namespace

PromisedMemory::PromisedMemory(Driver& driver) : driver_(driver) {
  for (const auto& [address, node] : driver.memory().graph.nodes) {
    if (driver.map().find(address) != nullptr) continue;
    show(driver, address, node);
    added_.push_back(address);
  }
}

PromisedMemory::~PromisedMemory() {
  for (const CUdeviceptr address : added_) driver_.map().erase(address);
}

CUresult check_node_work(Driver& driver, const Work& work) {
  const PromisedMemory promised(driver);
  return check_work(driver, work);
}

bool may_free(Driver& driver, const Graph& graph, CUdeviceptr address) {
  if (!is_graph_memory(driver, address)) return false;
  return std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    const auto* free = std::get_if<FreeWork>(&node->content.work);
    return free != nullptr && free->address == address;
  });
}

void collect_memory(GraphExec& exec) {
  std::unordered_set<CUdeviceptr> freed;
  for_each_node(*exec.graph, [&](const GraphNode& node) {
    if (const auto* alloc = std::get_if<AllocWork>(&node.content.work)) {
      exec.allocates.push_back(alloc->address);
    } else if (const auto* free = std::get_if<FreeWork>(&node.content.work)) {
      freed.insert(free->address);
    }
  });
  for (const CUdeviceptr address : exec.allocates) {
    if (freed.erase(address) == 0) exec.leaves.push_back(address);
  }
  exec.frees.assign(freed.begin(), freed.end());
}

CUresult take_memory(Driver& driver, const GraphExec& exec) {
  if ((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0) {
    for (const CUdeviceptr address : exec.leaves) {
      if (allocated(driver, address)) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (const CUdeviceptr address : exec.frees) {
    if (!allocated(driver, address)) return CUDA_ERROR_INVALID_VALUE;
  }
  // The nodes do the same when they run, which is what counts when a launch runs behind a free
  // that is still queued. Here it shows whether there is room, and lets the program use the memory
  // in what it submits next.
  std::vector<CUdeviceptr> taken;
  for (const CUdeviceptr address : exec.allocates) {
    if (graph_memory_live(driver, address)) continue;
    if (CUresult full = commit_graph_memory(driver, address)) {
      for (const CUdeviceptr undone : taken) release_graph_memory(driver, undone);
      return full;
    }
    taken.push_back(address);
  }
  for (const CUdeviceptr address : exec.leaves) {
    if (!allocated(driver, address)) {
      show(driver, address, driver.memory().graph.nodes.at(address));
    }
  }
  for (const CUdeviceptr address : exec.frees) driver.map().erase(address);
  return CUDA_SUCCESS;
}

void forget_addresses(Driver& driver, const Graph& graph) {
  for_each_node(graph, [&](const GraphNode& node) {
    if (const auto* alloc = std::get_if<AllocWork>(&node.content.work)) {
      forget_graph_memory(driver, alloc->address);
    }
  });
}

}  // namespace divvy::simgpu
