#include "api/event_bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace divvy::api {

EventBell::Listener::Listener(EventBell& bell)
    : bell_(bell), fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const std::lock_guard lock(bell_.mutex_);
  if (fd_) bell_.listening_.insert(fd_.get());
}

EventBell::Listener::~Listener() {
  const std::lock_guard lock(bell_.mutex_);
  bell_.listening_.erase(fd_.get());
}

void EventBell::Listener::clear() const {
  std::uint64_t rung = 0;
  if (::read(fd_.get(), &rung, sizeof rung) < 0) return;
}

void EventBell::ring() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t one = 1;
  for (const int fd : listening_) {
    // One that is full has not looked yet, and will.
    if (::write(fd, &one, sizeof one) < 0) continue;
  }
}

}  // namespace divvy::api
