// The shared state of the simulated GPUs: one file in shared memory that every process maps.
//
// libcuda.so.1 and libnvidia-ml.so.1 of the simulation and the `simgpu` program all read and write
// it. It is plain data with fixed offsets. What a process holds (memory, contexts) is written into
// that process's own slot, so that nothing needs to be undone when it dies: a sum over the living
// slots is always right.
//
// Threads: atomics may be touched by anybody; other fields only under the lock named beside them.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace divvy::simgpu {

constexpr uint64_t kSharedMagic = 0x7570677673796464;  // "ddysvgpu"
constexpr uint32_t kSharedVersion = 3;
constexpr int kMaxGpus = 32;
constexpr int kMaxProcesses = 1024;
constexpr int kMaxChannels = 1024;  // contexts of one GPU, over all processes
constexpr int kMaxLinks = 18;       // NVLinks of one GPU
constexpr int kXidRing = 64;
constexpr int kMaxIpcEvents = 1024;

// A lock that survives the death of its holder: the next one to take it is told and repairs.
struct RobustMutex {
  pthread_mutex_t mutex;
};

// What one GPU is. Written once by the process that creates the state, then constant.
struct GpuSpec {
  char name[96];
  char uuid[48];  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
  char serial[32];
  char pci[20];  // "00000000:18:00.0"
  char vbios[32];
  uint64_t memory_bytes;       // what NVML calls total
  uint64_t reserved_bytes;     // kept by the driver, never free
  uint64_t context_bytes;      // what creating a context costs
  uint64_t bandwidth_bytes_s;  // device memory
  uint64_t pcie_bytes_s;
  uint32_t sm_count;
  uint32_t cores_per_sm;
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t clock_mhz;
  uint32_t memory_clock_mhz;
  uint32_t memory_bus_bits;
  uint32_t l2_bytes;
  uint32_t power_limit_mw;
  uint32_t idle_power_mw;
  uint32_t slowdown_c;  // temperature at which the clocks are lowered
  uint32_t shutdown_c;
  int32_t numa_node;     // -1: not known
  uint32_t pcie_switch;  // GPUs with the same number share a PCIe switch
  uint32_t pcie_gen;
  uint32_t pcie_width;
  uint32_t architecture;   // NVML's number: 9 is Hopper
  uint32_t pci_device_id;  // device in the high half, vendor in the low half
  uint32_t pci_subsystem_id;
  uint32_t link_count;
  int8_t link_peer[kMaxLinks];  // index of the GPU at the other end; -1: NVSwitch or none
  uint8_t link_version;
  uint8_t through_switch;  // the links of this GPU end in NVSwitches that join all such GPUs
};

// A stretch of time in which a channel had the GPU.
struct GpuWindow {
  uint64_t start_ns;
  uint64_t end_ns;
  bool operator==(const GpuWindow&) const = default;
};
constexpr int kMaxUnreadWindows = 64;

// One context of one process on one GPU, as the timeline sees it (timeline.h). All fields but the
// atomics are under Gpu::lock.
struct Channel {
  uint32_t used;
  uint32_t slot;    // the process
  uint32_t wants;   // has work and waits for the GPU
  uint32_t unread;  // windows that are over and that its process has not worked off yet
  uint64_t wants_since_ns;
  uint64_t window_start_ns;  // while it owns the GPU: settled up to here
  GpuWindow window[kMaxUnreadWindows];
  std::atomic<uint64_t> work_ns;      // what its process knows it still has to run
  std::atomic<uint64_t> consumed_ns;  // GPU time taken so far
};

// GPU time in the recent past, as a ring of buckets; utilisation is read from it.
constexpr int kBuckets = 32;
constexpr uint64_t kBucketNs = 1u << 25;  // 33.6 ms
struct BusyBuckets {
  struct Bucket {
    std::atomic<uint64_t> number;  // which stretch of time this bucket now holds
    std::atomic<uint64_t> busy_ns;
  } bucket[kBuckets];
};

// Something that NVML reports as an event: an XID, or a memory error.
struct XidEvent {
  uint64_t sequence;  // 1, 2, 3 ...
  uint64_t type;      // one of NVML's nvmlEventType bits
  uint64_t xid;       // 0 for an event that is no XID
  uint64_t at_ns;
};

// Trouble put on a GPU from outside (fault.h). Zero means none.
struct Faults {
  std::atomic<uint32_t> lost;          // fallen off the bus
  std::atomic<uint32_t> hung;          // every call about this GPU blocks while set (futex)
  std::atomic<uint32_t> ecc_pending;   // contexts of this GPU fail with an ECC error
  std::atomic<uint32_t> ecc_epoch;     // counts injected uncorrectable errors
  std::atomic<int32_t> temperature_c;  // 0: follow the load
  std::atomic<uint64_t> ecc_corrected;
  std::atomic<uint64_t> ecc_uncorrected;
  std::atomic<uint32_t> remapped_rows;
  std::atomic<uint32_t> remap_pending;
  std::atomic<uint32_t> remap_failed;
  // NVML queries that fail: a bit per QueryClass, all with one nvmlReturn_t.
  std::atomic<uint32_t> failing_queries;
  std::atomic<uint32_t> failing_with;
};

// Classes of NVML queries that can be made to fail one by one.
enum class QueryClass : uint32_t {
  kMemory,
  kTemperature,
  kPower,
  kUtilization,
  kPci,
  kName,
  kEcc,
  kNvlink,
  kProcesses,
  kClocks,
  kNuma,
  kCount
};

// What an administrator changed through NVML's setters. Zero is the default everywhere.
struct Settings {
  std::atomic<uint32_t> power_limit_mw;  // 0: the model's own limit
  std::atomic<uint32_t> persistence_off;
  std::atomic<uint32_t> compute_mode;  // nvmlComputeMode_t; contexts must obey it
  std::atomic<uint32_t> locked_min_mhz;
  std::atomic<uint32_t> locked_max_mhz;
  std::atomic<uint32_t> ecc_off_pending;
  std::atomic<uint32_t> accounting;
  std::atomic<uint32_t> pad;
};

struct Gpu {
  GpuSpec spec;
  RobustMutex memory_lock;  // held while memory is charged
  RobustMutex lock;

  // Timeline, under `lock`.
  int32_t owner;          // index into channel, -1 when the GPU is idle
  int32_t last_owner;     // who had it before; its successor is next in turn
  uint32_t channel_high;  // channels beyond this were never used
  uint32_t pad;
  uint64_t slice_end_ns;   // the owner's time slice
  uint64_t free_since_ns;  // when the last owner let go
  Channel channel[kMaxChannels];

  std::atomic<uint64_t> busy_ns;  // GPU time taken by everybody since the beginning
  BusyBuckets buckets;
  // Copies between the GPU and anything else, since the beginning.
  std::atomic<uint64_t> pcie_sent_bytes;
  std::atomic<uint64_t> pcie_received_bytes;

  Faults faults;
  Settings settings;
  std::atomic<uint32_t> xid_sequence;  // also the futex word of those who wait for the next
  XidEvent xid[kXidRing];              // under `lock`
};

struct ProcessOnGpu {
  std::atomic<uint64_t> used_bytes;  // everything: contexts, modules, allocations
  std::atomic<uint64_t> peak_bytes;
  std::atomic<uint32_t> contexts;
  std::atomic<uint32_t> pad;
  std::atomic<uint64_t> consumed_ns;
  std::atomic<uint64_t> launches;
  BusyBuckets buckets;
};

enum class SlotState : uint32_t { kFree = 0, kClaimed = 1 };

// A process that called cuInit. Life is told by a file lock that the kernel drops when the process
// ends in whatever way (SharedState::alive), never by the pid.
struct ProcessSlot {
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> generation;
  std::atomic<uint32_t> wake;       // futex: bumped when the process should look again
  std::atomic<uint32_t> seen_wake;  // manual clock: the last `wake` it has worked off
  int32_t pid;
  std::atomic<uint32_t> callers_waiting;   // threads in a call that waits for the GPU
  std::atomic<uint32_t> caller_seen_wake;  // the last `wake` after which one of them waits on
  uint32_t pad;
  uint64_t started_ns;
  std::atomic<uint64_t> settled_at_ns;  // manual clock: has done all it can up to this time
  char name[64];
  ProcessOnGpu gpu[kMaxGpus];
};

// An event that may be waited for in another process.
struct IpcEvent {
  std::atomic<uint32_t> used;
  std::atomic<uint32_t> references;
  std::atomic<uint64_t> recorded;   // versions handed to cuEventRecord
  std::atomic<uint64_t> completed;  // versions the GPU has passed
  std::atomic<uint64_t> completed_at_ns;
};

enum class ClockMode : uint32_t { kReal = 0, kManual = 1 };

struct Shared {
  uint64_t magic;
  uint32_t version;
  std::atomic<uint32_t> ready;  // set last by the creator
  uint64_t bytes;
  char driver_version[32];
  uint32_t cuda_version;
  uint32_t gpu_count;
  uint64_t slice_ns;           // time slice between contexts
  uint64_t default_kernel_ns;  // for kernels that do not say what they cost
  uint64_t launch_ns;          // GPU-side cost of any launch
  uint64_t created_ns;
  uint32_t clock_mode;  // ClockMode
  std::atomic<uint64_t> manual_now_ns;
  std::atomic<uint32_t> events;  // futex: bumped with every event of any GPU
  RobustMutex table_lock;        // claiming and reaping of slots
  uint32_t slot_high;            // slots beyond this were never used; under table_lock
  ProcessSlot slot[kMaxProcesses];
  IpcEvent ipc_event[kMaxIpcEvents];
  Gpu gpu[kMaxGpus];
};

}  // namespace divvy::simgpu
