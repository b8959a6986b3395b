// Moves the manual clock of the simulated GPUs forward (configuration `clock: manual`), so that a
// test decides when GPU time passes.
//
// Called by `simgpu clock advance` and by tests, from any process. Two callers at once are safe;
// both see their own step done.
#pragma once

#include <functional>
#include <string>

#include "simgpu/state.h"

namespace divvy::simgpu {

// Adds `step_ns` to the clock and returns when every living process has done all that it can up to
// the new time. False, with the reason, when the clock is real or a process does not follow within
// `patience_ms` of real time (it is stopped, say); the clock has moved all the same. Nobody waits
// for those that `excused` names.
bool advance_manual_clock(SharedState& state, uint64_t step_ns, std::string* error,
                          uint64_t patience_ms = 10'000,
                          const std::function<bool(int pid)>& excused = {});

}  // namespace divvy::simgpu
