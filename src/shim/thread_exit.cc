#include "shim/thread_exit.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "shim/gate.h"
#include "shim/libc_dl.h"

namespace divvy::shim {
namespace {

thread_local bool t_told __attribute__((tls_model("initial-exec"))) = false;

void thread_ends(void*) {
  // The main thread's end is the process's.
  if (syscall(SYS_gettid) != getpid()) close_lanes_of_this_thread();
}

}  // namespace

void tell_thread_exit() {
  if (t_told) return;
  t_told = true;
  // Destructors of thread_local objects run before those of pthread keys, which the driver may keep
  // its per-thread streams by. Looked up, because a C library of 2.17 lacks it; there, lanes of
  // threads that have ended stay until their context goes.
  using AtExit = int (*)(void (*)(void*), void*, void*);
  const auto at_exit =
      reinterpret_cast<AtExit>(libc_dl().sym(RTLD_DEFAULT, "__cxa_thread_atexit_impl"));
  static char here;
  if (at_exit != nullptr) at_exit(thread_ends, nullptr, &here);
}

}  // namespace divvy::shim
