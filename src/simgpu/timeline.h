// How the contexts of one GPU take turns: one at a time, in time slices, round-robin, as hardware
// does without MPS.
//
// Simulated time is settled late: whoever looks works out what happened up to now, for everybody.
// Each channel says how much work it knows of, so its turns can be given out without it: a process
// that sleeps, is stopped or just slow finds the windows it had when it looks, and fills them with
// its kernels after the fact. A channel whose process has died gets no further turn.
//
// Every function takes the GPU's lock. Thread-safe across processes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "simgpu/state.h"

namespace divvy::simgpu {

class Timeline {
 public:
  Timeline(SharedState& state, int gpu) : state_(state), gpu_(gpu) {}

  int open_channel(int slot);  // -1 when the GPU has no channel left
  void close_channel(int channel, uint64_t now);

  // Where a channel stands after it filled a window.
  struct Standing {
    uint64_t settled_ns;  // its kernels are settled up to here
    uint64_t work_ns;     // what is left to run, as far as it knows; 0: nothing is ready
  };
  using FillWindow = std::function<Standing(const GpuWindow&)>;

  struct Turn {
    bool waiting = false;  // has work, and somebody else has the GPU
    bool owning = false;
    uint64_t turn_at_ns = 0;  // waiting: when to look again at the latest
  };

  // Gives the channel what it is due up to now. `ready_ns`: since when it has had work, nothing if
  // it has none. `fill` is called for every window it had, in order of time, the last of which may
  // still be going on; it is called with the GPU's lock held.
  Turn take_turn(int channel, std::optional<uint64_t> ready_ns, uint64_t work_ns, uint64_t now,
                 const FillWindow& fill);

  Channel& channel(int index) { return gpu().channel[index]; }
  bool owns(int channel);

  // GPU time [start, end) was used by this process; counts for NVML and the meters.
  void account(int channel, int slot, uint64_t start_ns, uint64_t end_ns);

 private:
  Gpu& gpu() { return state_.gpu(gpu_); }
  void settle(uint64_t now);
  bool grant(uint64_t now);
  void end_window(uint64_t at_ns);
  void give_up(uint64_t at_ns);
  uint64_t owner_end();
  std::optional<uint64_t> first_other_wish(int channel);
  void wake(int channel);

  SharedState& state_;
  int gpu_;
};

// Puts the timeline fields of a GPU right after a process died while writing them.
void repair_timeline(void* gpu);

}  // namespace divvy::simgpu
