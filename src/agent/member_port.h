// Connections to TCP ports of members. Callable from any thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::agent {

// Of the loopback, IPv4 first. kFailedPrecondition: nobody listens there. Hardly waits: where a
// server takes no connections for the moment, the socket is still being connected, and the first
// use of it says how that went.
[[nodiscard]] Result<UniqueFd> connect_to_port(std::uint16_t port);

}  // namespace divvy::agent
