// Loads a library once for all threads, and again at the next question when there was none: the
// program may come to it by a path of its own later.
#pragma once

#include <dlfcn.h>
#include <sched.h>

#include <atomic>

#include "shim/libc_dl.h"

namespace divvy::shim {

class LoadOnce {
 public:
  // `fill` is called once, with the library, before anybody is answered true.
  bool load(const char* name, void (*fill)(void* library)) {
    for (;;) {
      int state = state_.load(std::memory_order_acquire);
      if (state == kLoaded) return true;
      // The library's own constructors may look something up while it is loaded.
      if (t_loading) return false;
      if (state == kLoading) {
        sched_yield();
        continue;
      }
      if (!state_.compare_exchange_strong(state, kLoading)) continue;
      t_loading = true;
      void* library = libc_dl().open(name, RTLD_LAZY);
      if (library != nullptr) fill(library);
      t_loading = false;
      state_.store(library != nullptr ? kLoaded : kNone, std::memory_order_release);
      return library != nullptr;
    }
  }

 private:
  enum State : int { kNotYet, kLoading, kLoaded, kNone };
  std::atomic<int> state_ = kNotYet;
  static inline thread_local bool t_loading = false;
};

}  // namespace divvy::shim
