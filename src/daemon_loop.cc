#include "daemon_loop.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace divvy {
namespace {

constexpr std::chrono::hours kUpkeepEvery{1};

// The next signal, or 0 when the time is over.
int wait_for_signal(const sigset_t& signals, Duration patience) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(patience);
  const timespec limit{seconds.count(), (patience - seconds).count()};
  for (;;) {
    const int signal = ::sigtimedwait(&signals, nullptr, &limit);
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

int run_daemon_loop(const sigset_t& signals, const sys::Supervisor& supervisor,
                    config::LiveConfig& settings, const LoopWork& work) {
  using Steady = std::chrono::steady_clock;
  supervisor.ready(work.status());
  for (Steady::time_point upkeep_at = Steady::now();;) {
    if (Steady::now() >= upkeep_at) {
      work.upkeep();
      upkeep_at = Steady::now() + kUpkeepEvery;
    }
    const Duration until_upkeep = std::max<Duration>(upkeep_at - Steady::now(), Duration(0));
    const Duration period = supervisor.watchdog_period().value_or(until_upkeep);
    const int signal = wait_for_signal(signals, std::min(period, until_upkeep));
    if (signal == SIGHUP) {
      supervisor.reloading();
      const bool right = settings.reload_and_log();
      work.reload();
      supervisor.ready(right ? work.status()
                             : "The configuration is wrong; the old settings hold.");
    } else if (signal != 0) {
      supervisor.stopping();
      return signal;
    }
    if (supervisor.watchdog_period()) supervisor.alive(work.status());
  }
}

}  // namespace divvy
