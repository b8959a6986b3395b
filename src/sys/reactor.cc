#include "sys/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace divvy::sys {

Result<Reactor> Reactor::create() {
  Reactor reactor;
  reactor.epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  reactor.wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (!reactor.epoll_ || !reactor.wake_ ||
      ::epoll_ctl(reactor.epoll_.get(), EPOLL_CTL_ADD, reactor.wake_.get(), &event) != 0) {
    return err(ErrorCode::kResourceExhausted, "no epoll: {}", std::strerror(errno));
  }
  return reactor;
}

Result<Reactor::Token> Reactor::watch(int fd, Callback callback) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = ++last_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return err(ErrorCode::kResourceExhausted, "a descriptor cannot be watched: {}",
               std::strerror(errno));
  }
  watched_.emplace(last_, Watched{fd, std::move(callback)});
  return last_;
}

void Reactor::unwatch(Token token) {
  const auto found = watched_.find(token);
  if (found == watched_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  watched_.erase(found);
}

void Reactor::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

std::vector<Reactor::Token> Reactor::wait(int timeout_ms) const {
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i) {
    const Token token = events[static_cast<std::size_t>(i)].data.u64;
    if (token != 0) {
      tokens.push_back(token);
      continue;
    }
    std::uint64_t ignored = 0;
    (void)!::read(wake_.get(), &ignored, sizeof ignored);
  }
  return tokens;
}

void Reactor::run(Token token) {
  const auto found = watched_.find(token);
  if (found == watched_.end()) return;
  // A copy, because the callback may end its own watch.
  const Callback callback = found->second.callback;
  callback();
}

}  // namespace divvy::sys
