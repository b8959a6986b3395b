// The three pages of shared memory between a tenant's processes and the daemon.
//
//   control page   one per tenant. The daemon writes, the tenant can only read (a sealed memfd).
//                  Limits, and the gates that streams of the tenant wait at.
//   account page   one per tenant. Every process of the tenant writes its own slot; memory in use
//                  is the sum over the slots, so that a death needs no repair: the daemon clears
//                  the dead process's slot. The daemon does not trust it.
//   lanes page     one per process, made by the shim. A lane is a stream as the arbiter sees it:
//                  how many batches were put in, how many passed the gate, how many are done. The
//                  CPU side and the GPU write it, the daemon reads it and does not trust it.
//
// Plain data with fixed offsets, and nothing here is ever moved or compacted. Fields that two
// processes touch are atomics of 32 or 64 bits, which have the layout of plain integers. A new
// field goes into a reserved place, where an older reader does not look and an older writer leaves
// zero; what exists keeps its offset. So pages of an older or newer Divvy can be used as they are,
// and kPagesVersion stays until that is no longer true.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace divvy::wire {

constexpr uint32_t kPagesVersion = 1;
constexpr int kMaxGpus = 16;        // slices of one tenant
constexpr int kMaxProcesses = 256;  // registered processes of one tenant
constexpr int kMaxLanes = 511;      // streams of one process that are gated at a time

// --- Control page ---

constexpr uint32_t kControlMagic = 0x31435644;  // "DVC1"

// ControlGpu::mode
enum class Mode : uint32_t {
  kFree = 0,   // put nothing around launches
  kGated = 1,  // cut launches into batches that wait at the gate
};

// ControlGpu::flags
constexpr uint32_t kSliceLatencyClass = 1u << 0;
constexpr uint32_t kSliceCapped = 1u << 1;
constexpr uint32_t kSliceMps = 1u << 2;
// Somebody else waits for this GPU or may be made to: the end of a batch is told as soon as it is
// known, and a kernel that was never measured has a batch of its own. Not set: nobody would use the
// GPU sooner, so batches are left open while the program synchronizes.
constexpr uint32_t kSliceContended = 1u << 3;

struct ControlGpu {
  uint8_t uuid[16];                    // as cuDeviceGetUuid gives it
  std::atomic<uint64_t> memory_limit;  // bytes
  // What the driver holds for this tenant beyond what its processes have counted, as the daemon
  // measured it. Counts as used.
  std::atomic<uint64_t> uncounted_bytes;
  std::atomic<uint64_t> context_bytes;  // what a context on this GPU is known to cost; 0: unknown
  std::atomic<uint32_t> gate;           // bit 0: open. Streams wait until `gate & 1`
  std::atomic<uint32_t> mode;           // Mode
  std::atomic<uint32_t> batch_ns;       // predicted GPU time at which a batch is cut
  std::atomic<uint32_t> share;          // thousandths
  std::atomic<uint32_t> flags;
  std::atomic<uint32_t> used_share;  // thousandths of the GPU's time in the last second, measured
  std::atomic<uint32_t> minor;       // the GPU's index on the host, as NVML counts
  uint32_t reserved[9];
};
static_assert(sizeof(ControlGpu) == 104);

struct ControlPage {
  uint32_t magic;
  uint32_t version;
  uint64_t tenant;
  uint32_t gpu_count;
  std::atomic<uint32_t> any_gated;  // some GPU's mode is not kFree: the one word a launch reads
  // The daemon sleeps: whoever begins a batch sends it a Doorbell.
  std::atomic<uint32_t> asleep;
  uint32_t reserved0;
  char tenant_name[64];
  uint8_t reserved1[32];
  ControlGpu gpu[kMaxGpus];
};
static_assert(offsetof(ControlPage, any_gated) == 20);
static_assert(offsetof(ControlPage, gpu) == 128);
static_assert(sizeof(ControlPage) == 128 + kMaxGpus * 104);
static_assert(sizeof(ControlPage) <= 4096);
constexpr size_t kControlBytes = 4096;

// --- Account page ---

constexpr uint32_t kAccountMagic = 0x31415644;  // "DVA1"

// Memory of one process on one GPU, in bytes. `pending` is asked of the driver and not yet given;
// it counts as used.
struct AccountCell {
  std::atomic<uint64_t> used;
  std::atomic<uint64_t> pending;
  std::atomic<uint64_t> peak;     // largest `used` of this process
  std::atomic<uint64_t> refused;  // calls that were answered "out of memory" by the slice
};

struct AccountSlot {
  std::atomic<uint32_t> generation;  // odd: taken. The daemon gives and takes it
  std::atomic<int32_t> pid;          // as the daemon's pid namespace sees it
  uint64_t reserved[7];
  AccountCell gpu[kMaxGpus];
};
static_assert(sizeof(AccountSlot) == 64 + kMaxGpus * 32);

struct AccountPage {
  uint32_t magic;
  uint32_t version;
  std::atomic<uint32_t> slot_high;  // slots from here on were never used
  uint32_t reserved[13];
  AccountSlot slot[kMaxProcesses];
};
static_assert(offsetof(AccountPage, slot) == 64);
constexpr size_t kAccountBytes = (sizeof(AccountPage) + 4095) / 4096 * 4096;

// --- Lanes page ---

constexpr uint32_t kLanesMagic = 0x314c5644;  // "DVL1"

enum class LaneState : uint32_t {
  kFree = 0,
  kLive = 1,
  kRetiring = 2,  // its stream is gone, its last batch may still run
  kDead = 3,      // its context failed or is gone: nothing of it will happen any more
};

// Batches of a lane are numbered 1, 2, 3 ... and the counters say how far each stage has come:
// inserted >= passed >= done, inserted >= closed. They wrap.
struct Lane {
  std::atomic<uint32_t> state;     // LaneState
  std::atomic<uint32_t> gpu;       // index into ControlPage::gpu
  std::atomic<uint32_t> inserted;  // begun, by the CPU
  std::atomic<uint32_t> closed;    // its end is in the stream too
  std::atomic<uint32_t> passed;    // through the gate; written by the GPU
  std::atomic<uint32_t> done;      // finished; written by the GPU
  // Predicted GPU time of everything that was put into this lane since it was made, counted before
  // each launch, and what that sum was when the last batch (`inserted`) began. Nanoseconds. A batch
  // that the CPU fills slowly is charged by these, a full one by what the arbiter saw.
  std::atomic<uint64_t> cost_ns;
  std::atomic<uint64_t> begun_cost_ns;
  uint64_t reserved[3];
};
static_assert(sizeof(Lane) == 64);

// LanesPage::flags
constexpr uint32_t kGatesUnavailable = 1u << 0;  // the driver refuses memory operations on streams

struct LanesPage {
  uint32_t magic;
  uint32_t version;
  std::atomic<uint32_t> lane_high;  // lanes from here on were never used
  std::atomic<uint32_t> flags;
  std::atomic<uint64_t> contexts;  // bit i: the process has a context on ControlPage::gpu[i]
  // For the process itself: a launch that is measured waits on the GPU until this has reached its
  // ticket, so that what the CPU does between the timing events is over before the first one fires.
  std::atomic<uint32_t> released;
  uint32_t reserved0;
  uint64_t reserved[4];
  Lane lane[kMaxLanes];
};
static_assert(offsetof(LanesPage, lane) == 64);
constexpr size_t kLanesBytes = 32768;
static_assert(sizeof(LanesPage) == kLanesBytes);

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8);

}  // namespace divvy::wire
