// Unix sockets whose packets may carry file descriptors. Nothing here blocks. Callable from any
// thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::sys {

// Listens at `path`, replacing what was left there. Who can write to the socket can connect: with
// mode 0600, only `owner` and root.
[[nodiscard]] Result<UniqueFd> listen_for_packets(const std::filesystem::path& path, uid_t owner,
                                                  gid_t group, mode_t mode);

struct Packet {
  enum class Outcome { kReceived, kNothingYet, kClosed };
  Outcome outcome = Outcome::kNothingYet;
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
  bool complete = true;  // False: it was longer, or brought more descriptors, than anybody may send
};
// Longer ones, and those with more than four descriptors, are not complete.
[[nodiscard]] Packet receive_packet(int socket, std::size_t longest = 1024);

// False when the packet could not be sent now; the caller gives the connection up.
[[nodiscard]] bool send_packet(int socket, std::span<const std::byte> bytes,
                               std::span<const int> fds);

template <typename Message>
[[nodiscard]] bool send_message(int socket, const Message& message, std::span<const int> fds = {}) {
  return send_packet(socket, std::as_bytes(std::span(&message, 1)), fds);
}

}  // namespace divvy::sys
