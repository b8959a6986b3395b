#include "daemon_loop.h"

#include <cerrno>
#include <chrono>

namespace divvy {
namespace {

// The next signal, or 0 when the time is over.
int wait_for_signal(const sigset_t& signals, std::optional<Duration> patience) {
  for (;;) {
    int signal = 0;
    if (patience) {
      const auto seconds = std::chrono::floor<std::chrono::seconds>(*patience);
      const timespec limit{seconds.count(), (*patience - seconds).count()};
      signal = ::sigtimedwait(&signals, nullptr, &limit);
    } else {
      signal = ::sigwaitinfo(&signals, nullptr);
    }
    if (signal > 0) return signal;
    if (errno != EINTR) return 0;
  }
}

}  // namespace

sigset_t block_loop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int run_daemon_loop(const sigset_t& signals, const node::Supervisor& supervisor,
                    config::LiveConfig& settings, const std::function<std::string()>& status) {
  supervisor.ready(status());
  for (;;) {
    const int signal = wait_for_signal(signals, supervisor.watchdog_period());
    if (signal == SIGHUP) {
      supervisor.reloading();
      const bool right = settings.reload_and_log();
      supervisor.ready(right ? status() : "The configuration is wrong; the old settings hold.");
    } else if (signal != 0) {
      supervisor.stopping();
      return signal;
    }
    if (supervisor.watchdog_period()) supervisor.alive(status());
  }
}

}  // namespace divvy
