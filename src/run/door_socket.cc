#include "run/door_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "run/door_messages.h"

namespace divvy::run {
namespace {

constexpr const char* kDoor = "door";

// Through the open folder: a path of its own could be longer than an address of a socket.
sockaddr_un address_in(int folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder, kDoor);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd make_socket(int flags) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  // Room for the longest message and the kernel's own share.
  const int room = static_cast<int>(4 * kMaxDoorMessage);
  if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return socket;
}

}  // namespace

Result<UniqueFd> listen_at_door(int folder, uid_t owner) {
  UniqueFd socket = make_socket(SOCK_NONBLOCK);
  const sockaddr_un address = address_in(folder);
  ::unlinkat(folder, kDoor, 0);
  // The user of the member owns it. The daemon gets in by its group: root's has given up the right
  // to pass by the rights of files.
  const bool others = owner != ::geteuid();
  // The rights are set before there is a name, and connecting needs the right to write.
  if (!socket || ::fchmod(socket.get(), 0600) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::fchmodat(folder, kDoor, others ? 0660 : 0600, 0) != 0 ||
      (others && ::fchownat(folder, kDoor, owner, ::getegid(), AT_SYMLINK_NOFOLLOW) != 0) ||
      ::listen(socket.get(), 32) != 0) {
    return err(ErrorCode::kIo, "the door could not be opened: {}", std::strerror(errno));
  }
  return socket;
}

UniqueFd accept_at_door(int listener, uid_t owner) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return socket;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  if (peer.uid != owner && peer.uid != 0 && peer.uid != ::geteuid()) return {};
  const int room = static_cast<int>(4 * kMaxDoorMessage);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return socket;
}

Result<UniqueFd> connect_to_door(int folder) {
  UniqueFd socket = make_socket(0);
  const sockaddr_un address = address_in(folder);
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return err(
        errno == EACCES || errno == EPERM ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable,
        "nobody answers at the door of this member: {}", std::strerror(errno));
  }
  return socket;
}

DoorPacket receive_at_door(int socket) {
  DoorPacket packet;
  packet.text.resize(kMaxDoorMessage);
  iovec part{packet.text.data(), packet.text.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(kMaxDoorFds * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room;
  header.msg_controllen = sizeof room;
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    packet.text.clear();
    packet.outcome =
        errno == EAGAIN ? DoorPacket::Outcome::kNothingYet : DoorPacket::Outcome::kClosed;
    return packet;
  }
  for (cmsghdr* message = CMSG_FIRSTHDR(&header); message != nullptr;
       message = CMSG_NXTHDR(&header, message)) {
    if (message->cmsg_level != SOL_SOCKET || message->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (message->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(message) + i * sizeof(int), sizeof fd);
      packet.fds.emplace_back(fd);
    }
  }
  packet.complete = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  packet.text.resize(static_cast<std::size_t>(got));
  // Nobody has reason to send an empty packet, which cannot be told from the end.
  packet.outcome = got == 0 ? DoorPacket::Outcome::kClosed : DoorPacket::Outcome::kReceived;
  return packet;
}

DoorPacket receive_at_door(int socket, std::chrono::milliseconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  for (;;) {
    DoorPacket packet = receive_at_door(socket);
    if (packet.outcome != DoorPacket::Outcome::kNothingYet) return packet;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return packet;
    pollfd wait{socket, POLLIN, 0};
    (void)::poll(&wait, 1, static_cast<int>(left.count()));
  }
}

bool send_at_door(int socket, std::string_view text, const std::vector<int>& fds) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(kMaxDoorFds * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fds.size() > kMaxDoorFds) return false;
  const std::size_t bytes = fds.size() * sizeof(int);
  if (!fds.empty()) {
    header.msg_control = room;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(first), fds.data(), bytes);
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

}  // namespace divvy::run
