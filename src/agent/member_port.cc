#include "agent/member_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace divvy::agent {
namespace {

// On the loopback it is known at once how it went, except of a server that takes no connections for
// the moment.
constexpr int kUsuallyMs = 200;

// 0, or an error; EINPROGRESS: not known within that time.
int outcome_of(int socket, int patience_ms) {
  pollfd wait{socket, POLLOUT, 0};
  if (::poll(&wait, 1, patience_ms) != 1) return EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// Connected, or on its way; or nothing, with errno set.
template <typename Address>
UniqueFd connect_to(const Address& address, int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  // What is small goes at once: somebody may be typing.
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket.get(), plain, sizeof address) == 0) return socket;
  if (errno != EINPROGRESS) return {};
  const int error = outcome_of(socket.get(), kUsuallyMs);
  if (error == 0 || error == EINPROGRESS) return socket;
  socket.reset();
  errno = error;
  return socket;
}

Error nobody_listens(std::uint16_t port, int why) {
  return {ErrorCode::kFailedPrecondition,
          fmt::format("nothing listens on port {} there: {}", port, std::strerror(why))};
}

}  // namespace

Result<UniqueFd> connect_to_port(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd socket = connect_to(address, AF_INET);
  const int why = errno;
  if (socket) return socket;
  sockaddr_in6 wide{};
  wide.sin6_family = AF_INET6;
  wide.sin6_port = htons(port);
  wide.sin6_addr = in6addr_loopback;
  socket = connect_to(wide, AF_INET6);
  if (socket) return socket;
  return err(nobody_listens(port, why));
}

}  // namespace divvy::agent
