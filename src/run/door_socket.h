// The Unix socket in a member's folder: packets that may carry descriptors. Only the member's user,
// root and whoever the shepherd is get past the door. Callable from any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/packet_socket.h"

namespace divvy::run {

// In the folder that `folder` is open on, however long its path is. It belongs to `owner`.
[[nodiscard]] Result<UniqueFd> listen_at_door(int folder, uid_t owner);
// The next who knocks, if the kernel says that it is `owner`, root or our own user; others are hung
// up on. Does not wait.
[[nodiscard]] UniqueFd accept_at_door(int listener, uid_t owner);
// kUnavailable: nobody is there.
[[nodiscard]] Result<UniqueFd> connect_to_door(int folder);

// Does not wait.
[[nodiscard]] sys::Packet receive_at_door(int socket);
// Waits at most so long.
[[nodiscard]] sys::Packet receive_at_door(int socket, std::chrono::milliseconds most);
[[nodiscard]] std::string_view text_of(const sys::Packet& packet);
// False: it could not be sent at once.
[[nodiscard]] bool send_at_door(int socket, std::string_view text, std::span<const int> fds = {});

}  // namespace divvy::run
