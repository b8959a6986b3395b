#include "run/shepherd_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "run/shepherd_messages.h"

namespace divvy::run {
namespace {

// As in every version: an older divvyd may have started the shepherd, or be the one that connects.
constexpr const char* kSocketName = "door";
// In the line of a shepherd that was stopped, or of one before this version whose member's user has
// taken every place.
constexpr std::chrono::seconds kLine{10};

// Through the open folder: a path of its own could be longer than an address of a socket.
sockaddr_un address_in(int folder, const char* name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder, name);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd make_socket(int type) {
  UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  // Room for the longest message and the kernel's own share.
  const int room = static_cast<int>(4 * kMaxShepherdMessage);
  if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return socket;
}

}  // namespace

Result<UniqueFd> listen_in(int folder, const char* name, int type, uid_t owner) {
  UniqueFd socket = make_socket(type | SOCK_NONBLOCK);
  const sockaddr_un address = address_in(folder, name);
  ::unlinkat(folder, name, 0);
  // The user of the member owns it. The daemon gets in by its group: root's has given up the right
  // to pass by the rights of files.
  const bool others = owner != ::geteuid();
  // The rights are set before there is a name, and connecting needs the right to write.
  if (!socket || ::fchmod(socket.get(), 0600) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::fchmodat(folder, name, others ? 0660 : 0600, 0) != 0 ||
      (others && ::fchownat(folder, name, owner, ::getegid(), AT_SYMLINK_NOFOLLOW) != 0) ||
      ::listen(socket.get(), 32) != 0) {
    return err(ErrorCode::kIo, "the socket of the member could not be made: {}",
               std::strerror(errno));
  }
  return socket;
}

Result<UniqueFd> listen_as_shepherd(int folder, uid_t owner) {
  return listen_in(folder, kSocketName, SOCK_SEQPACKET, owner);
}

UniqueFd accept_caller(int listener, uid_t owner) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return socket;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  if (peer.uid != owner && peer.uid != 0 && peer.uid != ::geteuid()) return {};
  const int room = static_cast<int>(4 * kMaxShepherdMessage);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return socket;
}

Result<UniqueFd> connect_to_shepherd(int folder) {
  return connect_in(folder, kSocketName, SOCK_SEQPACKET, kLine);
}

Result<UniqueFd> connect_in(int folder, const char* name, int type,
                            std::optional<std::chrono::seconds> patience) {
  UniqueFd socket = make_socket(type);
  if (patience && socket) {
    // Of connect(), too.
    const timeval time{patience->count(), 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  }
  const sockaddr_un address = address_in(folder, name);
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return err(errno == EACCES || errno == EPERM ? ErrorCode::kPermissionDenied
               : errno == EAGAIN                 ? ErrorCode::kTimeout
                                                 : ErrorCode::kUnavailable,
               "the {} of this member does not answer: {}",
               std::string_view(name) == kSocketName ? "shepherd" : name, std::strerror(errno));
  }
  return socket;
}

sys::Packet receive_shepherd_packet(int socket) {
  return sys::receive_packet(socket, kMaxShepherdMessage);
}

sys::Packet receive_shepherd_packet(int socket, std::chrono::milliseconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  for (;;) {
    sys::Packet packet = receive_shepherd_packet(socket);
    if (packet.outcome != sys::Packet::Outcome::kNothingYet) return packet;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return packet;
    pollfd wait{socket, POLLIN, 0};
    (void)::poll(&wait, 1, static_cast<int>(left.count()));
  }
}

std::string_view text_of(const sys::Packet& packet) {
  return {reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()};
}

bool send_shepherd_message(int socket, std::string_view text, std::span<const int> fds) {
  return sys::send_packet(socket, std::as_bytes(std::span(text)), fds);
}

}  // namespace divvy::run
