// Timing of single launches on the GPU, for cost.h.
//
// A sample is a launch between two timing events, less the time between two events with nothing in
// between: an event takes about as long as the shortest kernels. In an idle stream the first event
// would fire before the CPU has queued the launch, and the CPU's time would count as the GPU's. So
// the stream is held at a word of the lanes page (LanesPage::released) until everything is queued.
//
// A launch that is held can block: it may synchronise the context, or the queue may be full. So
// the watcher lets go what is held for longer than one of its looks, and to be free to do that it
// makes no call into the driver while anything is held. Hence one token: a sample has it, or the
// watcher while it is busy. Nobody waits for it: a launch that does not get it is not measured.
#pragma once

#include <stdint.h>

#include <atomic>

#include "abi/cuda.h"
#include "shim/cost.h"
#include "wire/pages.h"

namespace divvy::shim {

struct Sample {
  enum State : uint32_t { kFree, kTaken, kInFlight };
  std::atomic<uint32_t> state = kFree;
  CUevent before = nullptr;  // begin - before: what an event takes of the stream
  CUevent begin = nullptr;
  CUevent end = nullptr;
  CostEntry* entry = nullptr;
  wire::LanesPage* page = nullptr;  // whose `released` its stream waits for
  uint32_t ticket = 0;
};

constexpr int kSamples = 32;

// The samples of one context, which is current where these are called.
class SamplePool {
 public:
  // One with its events made and the token; null when none is free or the token is taken.
  Sample* take(CostEntry* entry, wire::LanesPage* page);
  // Its launch is queued: lets the stream go on. A sample that the watcher had to let go says
  // nothing.
  static void queued(Sample& sample);
  // It came to nothing before its launch.
  static void drop(Sample& sample);
  // Learns from what the GPU has finished.
  void collect();
  // The context is gone, and its events with it.
  void forget();

 private:
  Sample sample_[kSamples] = {};
};

// For the watcher. Lets go what has been held since its last look; true while something is held.
bool release_overdue_hold();
// False: something is held, and the driver must not be called now.
bool keep_holds_off();
void allow_holds();

void holds_forget_after_fork();

}  // namespace divvy::shim
