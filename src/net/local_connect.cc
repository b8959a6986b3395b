#include "net/local_connect.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/trusted_path.h"
#include "base/unix_address.h"

namespace divvy::net {
namespace {

Error not_connected(int reason, const std::string& path) {
  if (reason == EAGAIN) {
    return {ErrorCode::kTimeout, fmt::format("divvyd at {} did not answer in time", path)};
  }
  if (reason == EACCES || reason == EPERM) {
    return {ErrorCode::kPermissionDenied,
            fmt::format("you may not speak with the divvyd at {}", path)};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("no divvyd answers at {}: {}", path, std::strerror(reason))};
}

// Where nobody is there is nobody to distrust.
Status check_place(const std::filesystem::path& socket) {
  const Status trusted = check_trusted_folder(socket.parent_path());
  if (trusted) return {};
  if (trusted.error().code == ErrorCode::kNotFound) {
    return err(not_connected(ENOENT, socket.string()));
  }
  return err(
      trusted.error().code,
      "the divvyd at {} is not believed, because {}; set DIVVY_RUN_DIR to a folder that only "
      "you can change",
      socket.string(), trusted.error().message);
}

// The kernel's word on who called listen().
Status check_peer(int fd, const std::string& path) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
      (peer.uid == 0 || peer.uid == ::geteuid())) {
    return {};
  }
  return err(ErrorCode::kPermissionDenied,
             "whoever listens at {} is user {}, neither you nor root; nothing was said to them",
             path, peer.uid);
}

}  // namespace

Result<UniqueFd> connect_locally(const std::filesystem::path& socket,
                                 std::chrono::milliseconds most) {
  DIVVY_TRY(address, unix_address(socket));
  const std::string path = socket.string();
  DIVVY_RETURN_IF_ERROR(check_place(socket));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return err(ErrorCode::kResourceExhausted, "no socket: {}", std::strerror(errno));
  // A connect() waits while the queue of the listener is full, for as long as a send would.
  const timeval patience{most.count() / 1000, most.count() % 1000 * 1000};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINTR) return err(not_connected(errno, path));
  }
  DIVVY_RETURN_IF_ERROR(check_peer(fd.get(), path));
  return fd;
}

}  // namespace divvy::net
