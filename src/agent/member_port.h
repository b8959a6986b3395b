// Connections to TCP ports of members. Callable from any thread.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::agent {

// Of the loopback, IPv4 first. kFailedPrecondition: nobody listens there. Hardly waits: where a
// server takes no connections for the moment, the socket is still being connected, and the first
// use of it says how that went.
[[nodiscard]] Result<UniqueFd> connect_to_port(std::uint16_t port);
// The same for the member with this folder; waits a second at most, and is connected then.
[[nodiscard]] Result<UniqueFd> connect_to_port_of(const std::filesystem::path& folder,
                                                  std::uint16_t port);

}  // namespace divvy::agent
