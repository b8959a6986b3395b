#include "shim/watcher.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>

#include "shim/gate.h"
#include "shim/libc_dl.h"
#include "shim/link.h"
#include "shim/real.h"

namespace divvy::shim {
namespace {

// How often open batches are looked at; one that got no launch between two looks is closed.
constexpr long kLookNs = 300'000;
// Looks with nothing open before it goes to sleep.
constexpr int kIdleLooks = 64;
// Between two tries to join again: soon at first, because a daemon is restarted in a moment.
constexpr int kRejoinMs = 50;
constexpr int kLongestRejoinMs = 2000;

std::atomic<int> g_started{0};
std::atomic<int> g_asleep{0};
std::atomic<int> g_bell{-1};
thread_local bool t_watcher __attribute__((tls_model("initial-exec"))) = false;

// Waits on the socket (only for its closing: answers belong to whoever asked) and on the bell.
// Says whether the daemon has gone.
bool wait(const timespec* timeout) {
  pollfd fds[2] = {{g_bell.load(), POLLIN, 0}, {session_socket(), POLLRDHUP, 0}};
  if (ppoll(fds, 2, timeout, nullptr) <= 0) return false;
  if ((fds[0].revents & POLLIN) != 0) {
    uint64_t count;
    if (read(fds[0].fd, &count, sizeof count) < 0) return false;
  }
  return (fds[1].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void come_back_to_the_daemon() {
  for (int pause_ms = kRejoinMs; !rejoin(); pause_ms += pause_ms / 8) {
    poll(nullptr, 0, pause_ms < kLongestRejoinMs ? pause_ms : kLongestRejoinMs);
  }
  gate_control_changed();
}

void* watch(void*) {
  t_watcher = true;
  // What this thread does is no part of the program's captures.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (g_cuda.cuThreadExchangeStreamCaptureMode != nullptr) {
    g_cuda.cuThreadExchangeStreamCaptureMode(&mode);
  }
  int idle = 0;
  for (;;) {
    idle = gated() && close_stale_batches() ? 0 : idle + 1;
    bool gone;
    if (idle < kIdleLooks && gated()) {
      const timespec look = {0, kLookNs};
      gone = wait(&look);
    } else {
      g_asleep.store(1);
      // Whoever began a batch before it saw us asleep is found by this last look.
      gone = gated() && close_stale_batches() ? false : wait(nullptr);
      g_asleep.store(0);
      idle = 0;
    }
    if (gone || session_socket() < 0) come_back_to_the_daemon();
  }
}

}  // namespace

bool on_watcher_thread() { return t_watcher; }

void wake_watcher() {
  if (__builtin_expect(g_asleep.load(std::memory_order_relaxed) == 0, 1)) return;
  if (g_asleep.exchange(0) == 0) return;
  const uint64_t one = 1;
  if (write(g_bell.load(), &one, sizeof one) < 0) return;
}

void start_watcher() {
  if (g_started.exchange(1) != 0) return;
  g_bell.store(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
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
  using Detach = int (*)(pthread_t);
  const auto detach = reinterpret_cast<Detach>(libc_dl().sym(RTLD_DEFAULT, "pthread_detach"));
  if (detach != nullptr) detach(thread);
}

void watcher_forget_after_fork() {
  g_started.store(0);
  g_asleep.store(0);
  const int bell = g_bell.exchange(-1);
  if (bell >= 0) close(bell);
}

}  // namespace divvy::shim
