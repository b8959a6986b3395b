// A short lock for what happens rarely. No library behind it, and zero is unlocked.
#pragma once

#include <sched.h>

#include <atomic>

namespace divvy::shim {

class SpinLock {
 public:
  void lock() {
    for (int spins = 0; !try_lock(); ++spins) {
      if (spins > 100) {
        sched_yield();
      } else {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
      }
    }
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

class SpinLocked {
 public:
  explicit SpinLocked(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~SpinLocked() { lock_.unlock(); }
  SpinLocked(const SpinLocked&) = delete;
  SpinLocked& operator=(const SpinLocked&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace divvy::shim
