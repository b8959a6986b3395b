#include "agent/agent_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/message_buffer.h"
#include "base/unix_address.h"
#include "sys/process.h"

namespace divvy::agent {
namespace {

const sockaddr* plain(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

Result<UniqueFd> listen_for_control(const std::filesystem::path& path) {
  DIVVY_TRY(address, unix_address(path));
  // It is asked for connections also when there is none.
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return err(ErrorCode::kIo, "no socket: {}", std::strerror(errno));
  ::unlink(path.c_str());
  if (::bind(fd.get(), plain(address), sizeof address) != 0 || ::chmod(path.c_str(), 0600) != 0 ||
      ::listen(fd.get(), 64) != 0) {
    return err(ErrorCode::kIo, "{} cannot be listened at: {}", path.string(), std::strerror(errno));
  }
  return fd;
}

Result<UniqueFd> connect_to_agent(const std::filesystem::path& path) {
  DIVVY_TRY(address, unix_address(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return err(ErrorCode::kIo, "no socket: {}", std::strerror(errno));
  if (::connect(fd.get(), plain(address), sizeof address) != 0) {
    return err(ErrorCode::kUnavailable, "no agent answers at {}: {}", path.string(),
               std::strerror(errno));
  }
  if (!is_ours(fd.get())) {
    return err(ErrorCode::kPermissionDenied, "somebody else listens at {}", path.string());
  }
  return fd;
}

bool is_ours(int socket) {
  const auto peer = sys::peer_of(socket);
  return peer && (peer->uid == 0 || peer->uid == ::geteuid());
}

Status send_now(int socket, const Message& message) {
  std::string bytes;
  append_message(bytes, write_message(message));
  std::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t sent = ::send(socket, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return err(ErrorCode::kUnavailable, "the connection is gone");
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<Message> receive_now(int socket, std::chrono::milliseconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  std::string bytes;
  std::size_t wanted = 4;
  for (;;) {
    while (bytes.size() < wanted) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      pollfd ready{socket, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) {
        return err(ErrorCode::kTimeout, "no message came in time");
      }
      char piece[4096];
      const ssize_t got =
          ::recv(socket, piece, std::min(sizeof piece, wanted - bytes.size()), MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return err(ErrorCode::kUnavailable, "the connection is gone");
      bytes.append(piece, static_cast<std::size_t>(got));
    }
    if (wanted == 4) {
      std::uint32_t size = 0;
      for (unsigned i = 0; i < 4; ++i) {
        size |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
      }
      if (size > kMaxMessage) return err(ErrorCode::kDataLoss, "the message is too long");
      wanted += size;
      if (size > 0) continue;
    }
    DIVVY_TRY(text, take_message(bytes));
    if (!text) return err(ErrorCode::kDataLoss, "the message is not whole");
    return read_message(*text);
  }
}

}  // namespace divvy::agent
