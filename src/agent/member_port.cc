#include "agent/member_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "sys/port_owners.h"

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

Result<UniqueFd> connect_to(sys::Loopback loopback, std::uint16_t port) {
  UniqueFd socket;
  if (loopback == sys::Loopback::kV4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket = connect_to(address, AF_INET);
  } else {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_loopback;
    socket = connect_to(address, AF_INET6);
  }
  if (socket) return socket;
  return err(ErrorCode::kFailedPrecondition, "nothing listens on port {} there: {}", port,
             std::strerror(errno));
}

std::uint16_t own_port(int socket) {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // At the same place in an address of IPv4.
  return ntohs(address.sin6_port);
}

Result<PortConnection> connect_to_member(sys::Loopback loopback, std::uint16_t port,
                                         const IsOfMember& is_of_member) {
  DIVVY_TRY(before, sys::listener_at(loopback, port));
  if (before && !is_of_member(before->uid)) {
    return err(ErrorCode::kPermissionDenied,
               "port {} there is not the job's: a process of user {} listens at it", port,
               before->uid);
  }
  DIVVY_TRY(socket, connect_to(loopback, port));
  const std::uint16_t from = own_port(socket.get());
  return PortConnection{std::move(socket), [loopback, port, from, before, is_of_member] {
                          // Nobody else can listen there while it does.
                          const auto now = sys::listener_at(loopback, port);
                          if (before && now && *now == before) return true;
                          // One that has ended, or came late; whoever accepted is asked for.
                          const auto peer = sys::connected_at(loopback, port, from);
                          return peer && *peer && (*peer)->inode != 0 && is_of_member((*peer)->uid);
                        }};
}

}  // namespace

Result<PortConnection> connect_to_port(std::uint16_t port, const IsOfMember& is_of_member) {
  auto connected = connect_to_member(sys::Loopback::kV4, port, is_of_member);
  if (connected) return connected;
  auto wide = connect_to_member(sys::Loopback::kV6, port, is_of_member);
  if (wide) return wide;
  // Of two reasons the one that says more.
  const bool is_foreign = wide.error().code == ErrorCode::kPermissionDenied;
  return err(is_foreign ? std::move(wide).error() : std::move(connected).error());
}

}  // namespace divvy::agent
