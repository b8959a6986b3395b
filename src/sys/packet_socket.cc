#include "sys/packet_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/unix_address.h"

namespace divvy::sys {
namespace {

constexpr std::size_t kMaxFds = 4;

}  // namespace

Result<UniqueFd> listen_for_packets(const std::filesystem::path& path, uid_t owner, gid_t group,
                                    mode_t mode) {
  DIVVY_TRY(address, unix_address(path));
  const std::string text = path.string();

  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return err(ErrorCode::kResourceExhausted, "no socket: {}", std::strerror(errno));
  ::unlink(text.c_str());
  // Made with no rights for others; connecting needs the right to write.
  if (::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(text.c_str(), mode) != 0) {
    return err(ErrorCode::kIo, "the socket {} could not be made: {}", text, std::strerror(errno));
  }
  if (owner != ::geteuid() && ::chown(text.c_str(), owner, group) != 0) {
    return err(ErrorCode::kPermissionDenied, "the socket {} could not be given to user {}: {}",
               text, owner, std::strerror(errno));
  }
  if (::listen(fd.get(), 128) != 0) {
    return err(ErrorCode::kIo, "the socket {} cannot be listened on: {}", text,
               std::strerror(errno));
  }
  return fd;
}

Packet receive_packet(int socket, std::size_t longest) {
  Packet packet;
  packet.bytes.resize(longest);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(kMaxFds * sizeof(int))];
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
    packet.bytes.clear();
    packet.outcome = errno == EAGAIN ? Packet::Outcome::kNothingYet : Packet::Outcome::kClosed;
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
  packet.bytes.resize(static_cast<std::size_t>(got));
  // An empty packet cannot be told from the end; nobody has reason to send one.
  packet.outcome = got == 0 ? Packet::Outcome::kClosed : Packet::Outcome::kReceived;
  return packet;
}

bool send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  if (fds.size() > kMaxFds) return false;
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char room[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = room;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(first), fds.data(), fds.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

}  // namespace divvy::sys
