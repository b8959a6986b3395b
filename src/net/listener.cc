#include "net/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unix_address.h"

namespace divvy::net {
namespace {

// Binds and listens; 0, or what went wrong.
int open_at(int fd, const SocketAddress& address) {
  const int yes = 1;
  const int no = 0;
  // The port of a daemon that ended a moment ago can be had again at once.
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.storage.ss_family == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  if (::bind(fd, address.get(), address.size) != 0) return errno;
  if (::listen(fd, SOMAXCONN) != 0) return errno;
  return 0;
}

std::uint16_t port_of(int fd) {
  SocketAddress bound;
  bound.size = sizeof bound.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.size) != 0) return 0;
  if (bound.storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&bound.storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound.storage)->sin_port);
}

}  // namespace

Result<Listener> Listener::on_path(const std::filesystem::path& path, mode_t mode) {
  DIVVY_TRY(address, unix_address(path));
  const std::string text = path.string();
  ::unlink(text.c_str());
  Listener listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Before and after, so that nobody connects in between whom the mode keeps out.
  const bool opened =
      listener.fd_ >= 0 && ::fchmod(listener.fd_, mode) == 0 &&
      ::bind(listener.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::chmod(text.c_str(), mode) == 0 && ::listen(listener.fd_, SOMAXCONN) == 0;
  if (!opened) {
    return err(ErrorCode::kIo, "the socket {} could not be made: {}", text, std::strerror(errno));
  }
  return listener;
}

Result<Listener> Listener::on_network(const TcpAddress& address) {
  DIVVY_TRY(candidates, resolve(address));
  int reason = 0;
  for (const SocketAddress& candidate : candidates) {
    Listener listener(::socket(candidate.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    reason = listener.fd_ < 0 ? errno : open_at(listener.fd_, candidate);
    if (reason != 0) continue;
    listener.port_ = port_of(listener.fd_);
    return listener;
  }
  const ErrorCode code = reason == EADDRINUSE ? ErrorCode::kAlreadyExists
                         : reason == EACCES   ? ErrorCode::kPermissionDenied
                                              : ErrorCode::kIo;
  return err(code, "nothing can be served on {}: {}", to_string(address), std::strerror(reason));
}

Listener::~Listener() {
  if (fd_ >= 0) ::close(fd_);
}

Listener::Listener(Listener&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), port_(other.port_) {}

Result<int> Listener::accept() const {
  int fd = -1;
  do {
    fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (fd < 0) return err(ErrorCode::kIo, "{}", std::strerror(errno));
  return fd;
}

void Listener::stop() const { ::shutdown(fd_, SHUT_RDWR); }

}  // namespace divvy::net
