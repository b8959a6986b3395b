// Batches and gates: what keeps a tenant's launches inside its leases, on the GPU's side.
//
// While the daemon wants this tenant gated, the launches of each stream are cut into batches; a
// batch is bracketed by memory operations in its stream: wait until the gate is open, write
// `passed`, the launches, write `done` (wire/pages.h, Lane). The calling thread never waits. When
// the tenant is not gated, a launch costs one relaxed load.
//
// The rule that keeps tenants moving: what has passed the gate never depends on what may stand
// before it. So whatever makes a stream wait for something else goes between two batches.
//
// Called by the hooks, on the program's own threads, before or after the real call as the names
// say. Nothing here fails: where a gate cannot be put in, the launch goes ahead without.
#pragma once

#include <stdint.h>

#include <atomic>

#include "abi/cuda.h"
#include "shim/session.h"

namespace divvy::shim {

// A context on a granted device exists and its memory was charged; `context` need not be current.
void gate_context_created(CUcontext context);
// Before a call that may destroy a context; afterwards one of the two others, by what it did.
void gate_context_may_go(CUcontext context);
void gate_context_stayed(CUcontext context);
void gate_context_gone(CUcontext context);

// The one question that every launch asks.
inline bool gated() {
  const wire::ControlPage* page = control();
  return __builtin_expect(page != nullptr && page->any_gated.load(std::memory_order_relaxed) != 0,
                          0);
}

struct GatedLane;
struct Sample;

// One launch on its way through a gated stream. Made by before_launch, ended by after_launch; in
// between the lane belongs to this thread.
struct Passage {
  GatedLane* lane = nullptr;
  Sample* sample = nullptr;
};

// `per_thread`: the entry point was a per-thread one, whose null stream is the thread's own.
// `key`: from cost.h. 0: the cost is `known_ns`.
Passage before_launch(CUstream stream, bool per_thread, uint64_t key, uint32_t known_ns = 0);
void after_launch(const Passage& passage);

extern std::atomic<int> g_open_batches;
void close_batch_of(CUstream stream, bool per_thread);
// Something other than a launch goes into the stream that makes it wait (for an event, a value, the
// host, a copy): it must not be part of a batch.
inline void leave_batch(CUstream stream, bool per_thread) {
  if (__builtin_expect(g_open_batches.load(std::memory_order_relaxed) == 0, 1)) return;
  close_batch_of(stream, per_thread);
}

// The program is about to wait for this stream, or (`everything`) for all of them: what it has
// begun is complete as far as the CPU goes. Batches are closed only where that helps somebody: the
// latency class, or others who want the GPU.
void before_waiting(CUstream stream, bool per_thread);
void before_waiting_for_everything();
// Programs that keep a few launches in flight wait for an old event again and again; only in the
// latency class, where others stand still until the end is known, is that taken for an end.
void before_waiting_for_event();

// Around a call that begins to capture a stream. Nothing may be put into a capturing stream, and
// while there is one, nothing into the legacy stream from another thread; so nobody else puts
// anything into any stream during the call.
extern std::atomic<int> g_captures;
inline bool anything_captured() { return g_captures.load(std::memory_order_relaxed) != 0; }
class BeginCapture {
 public:
  BeginCapture(CUstream stream, bool per_thread);
  ~BeginCapture();
  // The capture goes on until capture_ended().
  void begun() { begun_ = true; }
  BeginCapture(const BeginCapture&) = delete;
  BeginCapture& operator=(const BeginCapture&) = delete;

 private:
  bool begun_ = false;
};
void capture_ended();
// Around a call that may take a stream into a capture that has begun: it waits for an event.
class MayJoinCapture {
 public:
  MayJoinCapture();
  ~MayJoinCapture();
  MayJoinCapture(const MayJoinCapture&) = delete;
  MayJoinCapture& operator=(const MayJoinCapture&) = delete;

 private:
  bool locked_;
};

void before_stream_destroyed(CUstream stream);
// The thread ends: nobody else can put anything into its per-thread streams.
void close_lanes_of_this_thread();

// --- For the watcher thread (watcher.cc) ---

// Closes batches that ended in silence, and those that run behind a closed gate. True while there
// is something to look at.
bool close_stale_batches();
// Pages are other ones: the daemon was restarted, or the program has closed our descriptors.
void gate_pages_changed(bool lanes_too);

}  // namespace divvy::shim
