// The end of a thread that launched into its per-thread stream, whose lane then is nobody's.
#pragma once

namespace divvy::shim {

// Has close_lanes_of_this_thread() (gate.h) called when the calling thread ends. Idempotent.
void tell_thread_exit();

}  // namespace divvy::shim
