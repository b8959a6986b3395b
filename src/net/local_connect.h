// A connection to a daemon of this machine whom we may believe. What such a daemon answers decides
// which libraries a command loads, and what it is told may be secret, so nothing is said before it
// is known whose it is. Callable from any thread.
#pragma once

#include <chrono>
#include <filesystem>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::net {

// kPermissionDenied: another user could have put the socket there, or listens on it; kUnavailable:
// nobody does; kTimeout: whoever does takes no connections.
[[nodiscard]] Result<UniqueFd> connect_locally(const std::filesystem::path& socket,
                                               std::chrono::milliseconds most);

}  // namespace divvy::net
