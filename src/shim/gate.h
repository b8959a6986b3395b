// Batches and gates: what keeps a tenant's launches inside its leases, on the GPU's side.
//
// While the daemon wants this tenant gated, the launches of each stream are cut into batches; a
// batch is bracketed by memory operations in its stream: wait until the gate is open, write
// `passed`, the launches, write `done` (wire/pages.h, Lane). The calling thread never waits. When
// the tenant is not gated, a launch costs one relaxed load.
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
void gate_context_created(CUcontext context, CUdevice device);
// After the real destruction (or the last release, or the reset) of a context.
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

// The program is about to wait for this stream, or (`everything`) for all of them: what it has
// begun is complete as far as the CPU goes.
void before_waiting(CUstream stream, bool per_thread);
void before_waiting_for_everything();
// Programs that keep a few launches in flight wait for an old event again and again; only in the
// latency class, where others stand still until the end is known, is that taken for an end.
void before_waiting_for_event();

// Around captures. Nothing may be put into a capturing stream, and while there is one, nothing into
// the legacy stream from another thread.
void before_capture();
void capture_failed_or_ended();

void before_stream_destroyed(CUstream stream);

// --- For the watcher thread (watcher.cc) ---

// Closes batches that ended in silence, and those that run behind a closed gate. True while there
// was something open.
bool close_stale_batches();
// The control page is another one (the daemon was restarted).
void gate_control_changed();

}  // namespace divvy::shim
