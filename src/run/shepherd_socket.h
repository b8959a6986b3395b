// The Unix socket in a member's folder: packets that may carry descriptors. Only the member's user,
// root and whoever the shepherd is can connect. Callable from any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/packet_socket.h"

namespace divvy::run {

// A listening socket of that name and type in the folder that `folder` is open on; connecting to
// it. For `owner`, root and whoever makes it.
[[nodiscard]] Result<UniqueFd> listen_in(int folder, const char* name, int type, uid_t owner);
// With `patience`, connecting and sending wait no longer; then it is kTimeout, or EAGAIN.
[[nodiscard]] Result<UniqueFd> connect_in(int folder, const char* name, int type,
                                          std::optional<std::chrono::seconds> patience = {});

// In the folder that `folder` is open on, however long its path is. It belongs to `owner`.
[[nodiscard]] Result<UniqueFd> listen_as_shepherd(int folder, uid_t owner);
// The next who connects, if the kernel says that it is `owner`, root or our own user; others are
// hung up on. Does not wait.
[[nodiscard]] UniqueFd accept_caller(int listener, uid_t owner);
// kUnavailable: nobody is there. kTimeout: it lets nobody in.
[[nodiscard]] Result<UniqueFd> connect_to_shepherd(int folder);

// Does not wait.
[[nodiscard]] sys::Packet receive_shepherd_packet(int socket);
// Waits at most so long.
[[nodiscard]] sys::Packet receive_shepherd_packet(int socket, std::chrono::milliseconds most);
[[nodiscard]] std::string_view text_of(const sys::Packet& packet);
// False: it could not be sent at once.
[[nodiscard]] bool send_shepherd_message(int socket, std::string_view text,
                                         std::span<const int> fds = {});

}  // namespace divvy::run
