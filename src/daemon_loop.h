// What the main thread of `divvyd` does while the others work: waits for signals, reads the
// configuration again, and tells the service manager that the daemon is alive. Composition.
#pragma once

#include <signal.h>

#include <functional>
#include <string>

#include "config/live_config.h"
#include "node/supervisor.h"

namespace divvy {

// Blocks the signals that the loop waits for, so that no thread made later takes them.
[[nodiscard]] sigset_t block_loop_signals();

// Returns with the signal that ends the daemon. `status` says in a few words how it is doing; it
// goes through the locks that the daemon's work needs, so that a daemon that hangs stops being
// alive.
int run_daemon_loop(const sigset_t& signals, const node::Supervisor& supervisor,
                    config::LiveConfig& settings, const std::function<std::string()>& status);

}  // namespace divvy
