// The shim's one thread: ends batches that the program left open, and joins again when the daemon
// was restarted. Asleep unless the tenant is gated and has work.
#pragma once

namespace divvy::shim {

// After the first context; idempotent, any thread.
void start_watcher();
// A batch was begun. Costs a relaxed load unless the watcher sleeps.
void wake_watcher();
// Whether the calling thread is the watcher.
bool on_watcher_thread();
void watcher_forget_after_fork();

}  // namespace divvy::shim
