// The shim's one thread: ends batches that the program left open, lets go samples that are held too
// long, and joins again when the daemon was restarted. Asleep unless the tenant is gated and has
// work, but for a look at the socket four times a second.
#pragma once

namespace divvy::shim {

// After the first context; idempotent, any thread.
void start_watcher();
// A batch was begun, or a sample is held. Costs a load unless the watcher sleeps.
void wake_watcher();
// Whether there is one, to let go what is held.
bool watcher_runs();
// Whether the calling thread is the watcher.
bool on_watcher_thread();
void watcher_forget_after_fork();
// For tests, which make its looks themselves: says that it runs, and starts none.
void watcher_is_simulated();

}  // namespace divvy::shim
