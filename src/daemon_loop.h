// What the main thread of `divvyd` does while the others work: waits for signals, reads the
// configuration again, and tells the service manager that the daemon is alive. Composition.
#pragma once

#include <signal.h>

#include <functional>
#include <string>

#include "config/live_config.h"
#include "sys/supervisor.h"

namespace divvy {

// Blocks the signals that the loop waits for, so that no thread made later takes them.
[[nodiscard]] sigset_t block_loop_signals();

struct LoopWork {
  // Says in a few words how the daemon is doing. It goes through the locks that the daemon's work
  // needs, so that a daemon that hangs stops being alive.
  std::function<std::string()> status;
  // After SIGHUP, besides the configuration.
  std::function<void()> reload;
  // Once at the beginning and then every hour. Does not block.
  std::function<void()> upkeep;
};

// Returns with the signal that ends the daemon.
int run_daemon_loop(const sigset_t& signals, const sys::Supervisor& supervisor,
                    config::LiveConfig& settings, const LoopWork& work);

}  // namespace divvy
