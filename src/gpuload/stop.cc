#include "gpuload/stop.h"

#include <signal.h>

#include <atomic>

namespace divvy::gpuload {
namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may write it");

extern "C" void request_stop(int /*signal*/) { requested.store(true, std::memory_order_relaxed); }

}  // namespace

void install_stop_signals() {
  struct sigaction action{};
  action.sa_handler = request_stop;
  // A second signal ends the process: the driver may be stuck in a call that never returns.
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return requested.load(std::memory_order_relaxed); }

}  // namespace divvy::gpuload
