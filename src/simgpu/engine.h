// Works off the streams of this process: what has happened on the simulated GPUs up to now.
//
// The engine is lazy. Launches only queue; whoever needs an answer calls advance(), which settles
// everything up to the present with exact simulated times. A thread of its own does the same in
// the background for what others can see (values written, host functions, the turn on the GPU) and
// sleeps when there is nothing to do.
//
// Every function is called with the driver's mutex held, except start() and the thread itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "simgpu/state.h"
#include "simgpu/stream.h"
#include "simgpu/timeline.h"

namespace divvy::simgpu {

class Engine {
 public:
  Engine(SharedState& state, int slot, std::mutex& mutex)
      : state_(state), slot_(slot), mutex_(mutex) {}

  uint64_t now() const { return now_ns(shared()); }

  void add_context(Context* context) { contexts_.push_back(context); }
  void remove_context(Context* context);

  // Starts the thread where it must answer from the beginning: under the manual clock.
  void begin();

  // Queues an operation. When the stream's queue is full it waits for room, letting go of `lock`.
  void submit(std::unique_lock<std::mutex>& lock, Stream& stream, Op&& op);

  // Settles everything up to now.
  void advance();

  // Settles until `done` holds, letting go of `lock` while it sleeps. `polling`: what it waits for
  // may come about in another process, with no word to this one.
  void wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done,
                bool polling = false);

  // Lets the engine's thread look again at once.
  void wake();

  // The calling thread is inside a host function, from which the driver may not be called.
  static bool in_host_function();

 private:
  const Shared& shared() const { return state_.shared(); }
  ProcessSlot& slot() { return state_.shared().slot[slot_]; }

  void thread_main();
  bool settle(uint64_t now);
  bool advance_context(Context& context, uint64_t now);
  bool run_kernels(Context& context, uint64_t now);
  static uint64_t duration(const Context& context, uint64_t cost_ns);
  Timeline::Standing fill_window(Context& context, const GpuWindow& window);
  bool step_instant(Stream& stream, uint64_t now);
  Op* front(Stream& stream);
  void complete(Stream& stream, Op& op, uint64_t at_ns);
  bool value_reached(const Op& op) const;
  void value_written(Context& context, uint64_t address, uint64_t at_ns);
  bool run_host_functions(std::unique_lock<std::mutex>& lock);
  // When to look again: at a simulated time, and whether memory is polled meanwhile. Neither: only
  // somebody else's doing can change anything.
  struct NextLook {
    std::optional<uint64_t> at_ns;
    bool polling = false;
  };
  NextLook next_look(uint64_t now);
  void sleep_until(std::unique_lock<std::mutex>& lock, const NextLook& look, uint32_t seen);
  uint64_t front_work(Stream& stream) const;
  uint64_t known_work(Context& context);
  void free_forgotten_streams(Context& context);
  void start_thread();

  SharedState& state_;
  int slot_;
  std::mutex& mutex_;
  std::vector<Context*> contexts_;
  std::thread thread_;
  bool thread_started_ = false;
  bool sleeping_ = false;  // the thread waits with no deadline
  bool host_due_ = false;  // a host function is at a front
  int waiters_ = 0;
  uint64_t completed_ = 0;  // operations, of all streams
};

}  // namespace divvy::simgpu
