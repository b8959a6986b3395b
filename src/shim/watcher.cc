#include "shim/watcher.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "shim/gate.h"
#include "shim/libc_dl.h"
#include "shim/link.h"
#include "shim/real.h"
#include "shim/sample.h"

namespace divvy::shim {
namespace {

// How often open batches are looked at; one that got no launch between two looks is closed.
constexpr long kLookNs = 300'000;
// Looks with nothing open before it goes to sleep.
constexpr int kIdleLooks = 64;
// How long it sleeps at most: then it sees whether the daemon is still there.
constexpr long kSleepNs = 250'000'000;
// Between two tries to join again: soon at first, because a daemon is restarted in a moment.
constexpr int kRejoinMs = 50;
constexpr int kLongestRejoinMs = 2000;

enum Started : int { kNot, kStarting, kRuns };
std::atomic<int> g_started{kNot};
// What it sleeps on: 1 while it does. A futex, because the program may close any descriptor.
std::atomic<uint32_t> g_asleep{0};
thread_local bool t_watcher __attribute__((tls_model("initial-exec"))) = false;

// Waits on the socket, only for its closing: answers belong to whoever asked.
bool daemon_gone(const timespec* timeout) {
  pollfd fd = {session_socket(), POLLRDHUP, 0};
  if (fd.fd < 0) return true;
  return ppoll(&fd, 1, timeout, nullptr) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void sleep_until_woken() {
  const timespec most = {0, kSleepNs};
  syscall(SYS_futex, &g_asleep, FUTEX_WAIT_PRIVATE, 1, &most, nullptr, 0);
}

void come_back_to_the_daemon() {
  // This thread cannot let go what is held while it waits for the daemon.
  while (!keep_holds_off()) {
    release_overdue_hold();
    const timespec look = {0, kLookNs};
    nanosleep(&look, nullptr);
  }
  bool lanes_replaced = false;
  for (int pause_ms = kRejoinMs; !rejoin(&lanes_replaced); pause_ms += pause_ms / 8) {
    poll(nullptr, 0, pause_ms < kLongestRejoinMs ? pause_ms : kLongestRejoinMs);
  }
  gate_pages_changed(lanes_replaced);
  allow_holds();
}

void* watch(void*) {
  t_watcher = true;
  // What this thread does is no part of the program's captures.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (g_cuda.cuThreadExchangeStreamCaptureMode != nullptr) {
    g_cuda.cuThreadExchangeStreamCaptureMode(&mode);
  }
  const timespec look = {0, kLookNs};
  const timespec now = {0, 0};
  int idle = 0;
  for (;;) {
    idle = gated() && close_stale_batches() ? 0 : idle + 1;
    bool gone;
    if (idle < kIdleLooks && gated()) {
      gone = daemon_gone(&look);
    } else {
      g_asleep.store(1);
      // Whoever began a batch before it saw us asleep is found by this last look.
      if (!gated() || !close_stale_batches()) sleep_until_woken();
      const bool woken = g_asleep.exchange(0) == 0;
      idle = woken ? 0 : kIdleLooks;
      gone = daemon_gone(&now);
    }
    if (gone) come_back_to_the_daemon();
  }
}

}  // namespace

bool on_watcher_thread() { return t_watcher; }

bool watcher_runs() { return g_started.load(std::memory_order_relaxed) == kRuns; }

void wake_watcher() {
  if (__builtin_expect(g_asleep.load() == 0, 1)) return;
  if (g_asleep.exchange(0) == 0) return;
  syscall(SYS_futex, &g_asleep, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void start_watcher() {
  int expected = kNot;
  if (!g_started.compare_exchange_strong(expected, kStarting)) return;
  // Not linked, because old systems have it in a library of its own; a program that uses CUDA has
  // that library loaded.
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const auto create = reinterpret_cast<Create>(libc_dl().sym(RTLD_DEFAULT, "pthread_create"));
  if (create == nullptr) return;
  // The program's signals are not for this thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int failed = create(&thread, nullptr, watch, nullptr);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) return;
  g_started.store(kRuns);
  using Detach = int (*)(pthread_t);
  const auto detach = reinterpret_cast<Detach>(libc_dl().sym(RTLD_DEFAULT, "pthread_detach"));
  if (detach != nullptr) detach(thread);
}

void watcher_is_simulated() { g_started.store(kRuns); }

void watcher_forget_after_fork() {
  g_started.store(kNot);
  g_asleep.store(0);
}

}  // namespace divvy::shim
