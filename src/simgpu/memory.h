// The memory that this process holds on the simulated GPUs, and what the other parts of the driver
// need of it. Who owns what: the Driver owns one Memory, which owns everything below.
//
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "simgpu/arena.h"
#include "simgpu/driver.h"

namespace divvy::simgpu {

struct Array;          // array.h
struct Mipmap;         // array.h
struct ManagedRanges;  // managed.h
struct Pool;           // pool.h
struct VirtualMemory;  // vmm.h

// Memory nodes of graphs: addresses are fixed when the node is made, memory is held from the first
// run on and kept for the next until somebody trims.
struct GraphMemory {
  struct Node {
    uint64_t bytes = 0;  // as asked for
    int device = 0;
    bool live = false;  // allocated by a graph that ran, and not yet freed
    bool gone = false;  // the node is destroyed; the addresses go when the memory is freed
  };
  std::unordered_map<uint64_t, Node> nodes;
};

struct DeviceMemory {
  explicit DeviceMemory(Driver& driver, int device);
  ~DeviceMemory();

  Arena arena;
  std::unique_ptr<Pool> default_pool;
  Pool* current_pool = nullptr;
  uint64_t graph_live = 0;      // memory nodes allocated now
  uint64_t graph_reserved = 0;  // charged for them, in steps of kPoolChunkBytes
  uint64_t graph_high = 0;
};

// An allocation of another process that this one has opened.
struct IpcImport {
  std::vector<char> key;  // the handle, by which it is found when opened again
  uint64_t mapped = 0;    // where the mapping begins; the allocation may begin inside it
  uint64_t mapped_bytes = 0;
  uint32_t references = 0;
};

struct Memory {
  Memory();
  ~Memory();

  std::vector<std::unique_ptr<DeviceMemory>> devices;
  std::unordered_map<const Pool*, std::unique_ptr<Pool>> pools;  // but the default ones
  std::unordered_map<const Array*, std::unique_ptr<Array>> arrays;
  std::unordered_map<const Mipmap*, std::unique_ptr<Mipmap>> mipmaps;
  std::unordered_map<uint64_t, IpcImport> imports;  // by address
  std::unordered_set<uint64_t> async_copies;        // allocations with SYNC_MEMOPS off
  // Entries of the shared table that destroyed events leave behind, until they are recorded up to
  // the count beside them.
  struct EndingEvent {
    int index;
    uint64_t recorded;
  };
  std::vector<EndingEvent> ending_events;
  std::unique_ptr<ManagedRanges> managed;
  std::unique_ptr<VirtualMemory> virtual_memory;
  GraphMemory graph;
};

DeviceMemory& device_memory(Driver& driver, int device);

// Charges a device. Before it reports failure it gives up what pools and graphs of this process
// keep in reserve; charge_hard() also lets the streams get to the frees that are due, and so must
// not be called by an operation that the engine runs.
bool charge_trimming(Driver& driver, int device, uint64_t bytes);
bool charge_hard(Driver& driver, int device, uint64_t bytes);

// Memory that belongs to a context and dies with it. Zero when the GPU is full.
uint64_t alloc_device(Driver& driver, Context& context, size_t bytes, MemoryKind kind,
                      size_t alignment = kSmallUnit);
// Frees what alloc_device() gave.
void free_device(Driver& driver, uint64_t address);
// Everything that goes with a context: plain, pitched, managed, pinned and registered memory,
// arrays and module variables. Pools, VMM handles and graph memory belong to the process and stay.
void free_context_memory(Driver& driver, Context& context);

// Pools give back what is idle beyond their release threshold. Called after every call that waited
// for a stream, an event or a context, as the hardware driver does.
void trim_pools_after_wait(Driver& driver);

// Graph memory nodes. An address is reserved when a node is made and forgotten when it is
// destroyed; commit and release are what the node does when it runs.
CUresult reserve_graph_memory(Driver& driver, int device, size_t bytes, CUdeviceptr* out);
void forget_graph_memory(Driver& driver, CUdeviceptr address);
CUresult commit_graph_memory(Driver& driver, CUdeviceptr address);
void release_graph_memory(Driver& driver, CUdeviceptr address);
bool is_graph_memory(Driver& driver, CUdeviceptr address);
// Allocated by a graph that ran and not freed since: the graph must not be launched again.
bool graph_memory_live(Driver& driver, CUdeviceptr address);

// Frees memory of any family, at once.
void free_any(Driver& driver, const Allocation& allocation);
// The second half of free_any(): what is left to do when the memory map has forgotten it already.
void release_memory(Driver& driver, const Allocation& gone);
// Whether a program may free this with cuMemFree and cuMemFreeAsync.
bool program_may_free(const Allocation& allocation);

// An event that other processes may know is destroyed here.
void release_ipc_event(Driver& driver, Event& event);

}  // namespace divvy::simgpu
