#include "shim/own_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace divvy::shim {
namespace {

// Below the usual limit of 1024 descriptors.
constexpr int kHigh = 700;

// By number, because fstat and fcntl are other symbols in newer C libraries.
bool identify(int fd, uint64_t* device, uint64_t* inode) {
  struct stat found;
#if defined(SYS_newfstatat)
  if (syscall(SYS_newfstatat, fd, "", &found, AT_EMPTY_PATH) != 0) return false;
#else
  if (syscall(SYS_fstat, fd, &found) != 0) return false;
#endif
  *device = found.st_dev;
  *inode = found.st_ino;
  return true;
}

}  // namespace

void OwnFd::take(int fd) {
  close();
  if (fd < 0) return;
  const int high = static_cast<int>(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kHigh));
  if (high >= 0) {
    ::close(fd);
    fd = high;
  }
  uint64_t device = 0;
  uint64_t inode = 0;
  identify(fd, &device, &inode);
  device_.store(device);
  inode_.store(inode);
  fd_.store(fd);
}

int OwnFd::get() const {
  const int fd = fd_.load();
  uint64_t device = 0;
  uint64_t inode = 0;
  if (fd < 0 || !identify(fd, &device, &inode)) return -1;
  return device == device_.load() && inode == inode_.load() ? fd : -1;
}

void OwnFd::close() {
  const int fd = get();
  fd_.store(-1);
  if (fd >= 0) ::close(fd);
}

}  // namespace divvy::shim
