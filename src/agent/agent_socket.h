// The Unix socket between the control side and an agent in another process of the same machine.
// Only root and our own user get through, on either side. Callable from any thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "agent/order_documents.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::agent {

// Replaces what was left at `path`.
[[nodiscard]] Result<UniqueFd> listen_for_control(const std::filesystem::path& path);
// kUnavailable: nobody listens there. kPermissionDenied: somebody else does.
[[nodiscard]] Result<UniqueFd> connect_to_agent(const std::filesystem::path& path);
// Who is at the other end is root or our own user.
[[nodiscard]] bool is_ours(int socket);

// For the beginning of a connection: waits, and reads nothing beyond the message.
[[nodiscard]] Status send_now(int socket, const Message& message);
[[nodiscard]] Result<Message> receive_now(int socket, std::chrono::milliseconds most);

}  // namespace divvy::agent
