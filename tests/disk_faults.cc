// A library for LD_PRELOAD that makes the disk under a ledger fail, so that a divvyd as it is
// shipped can be tested with it. Only for tests; nothing in divvyd knows of it.
//
//   DISK_FAULTS_FULL=FILE   while FILE exists, no block is left for the ledger
//   DISK_FAULTS_KILL_AT=N   the process is killed in the middle of the Nth operation on it
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<long> operations{0};

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// The ledger or the file that is to take its place; not the lock beside them.
bool is_ledger(const char* path) {
  const char* name = ::strrchr(path, '/');
  return name != nullptr && (::strcmp(name, "/ledger") == 0 || ::strcmp(name, "/ledger.new") == 0);
}

bool is_ledger(int fd) {
  char link[64];
  char path[4096];
  ::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = '\0';
  return is_ledger(path);
}

// The folder of the ledger is synced too.
bool is_state_folder(int fd) {
  char link[64];
  char path[4096];
  ::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = '\0';
  const char* name = ::strrchr(path, '/');
  return name != nullptr && ::strcmp(name, "/state") == 0;
}

// Is this the operation that does not come to its end?
bool is_last() {
  const char* at = ::getenv("DISK_FAULTS_KILL_AT");
  return at != nullptr && ++operations == ::atol(at);
}

void die() { ::kill(::getpid(), SIGKILL); }

bool is_full() {
  const char* file = ::getenv("DISK_FAULTS_FULL");
  return file != nullptr && ::access(file, F_OK) == 0;
}

}  // namespace

EXPORTED ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  if (!is_ledger(fd)) return next(fd, bytes, size);
  if (is_full()) {
    errno = ENOSPC;
    return -1;
  }
  if (is_last()) {
    (void)!next(fd, bytes, size / 2);
    die();
  }
  return next(fd, bytes, size);
}

EXPORTED int fdatasync(int fd) {
  static const auto next = real<int (*)(int)>("fdatasync");
  if (is_ledger(fd) && is_last()) die();
  return next(fd);
}

EXPORTED int fsync(int fd) {
  static const auto next = real<int (*)(int)>("fsync");
  if ((is_ledger(fd) || is_state_folder(fd)) && is_last()) die();
  return next(fd);
}

EXPORTED int rename(const char* from, const char* to) {
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  if (is_ledger(from) && is_last()) die();
  return next(from, to);
}
