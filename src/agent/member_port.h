// Connections to TCP ports of members. Callable from any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::agent {

// Whose sockets are the member's.
using IsOfMember = std::function<bool(uid_t)>;

struct PortConnection {
  UniqueFd socket;
  // Once it is connected: whether it is to the member. Somebody else may have come to listen there
  // between the look and the connection, so nothing is said or heard over it before.
  std::function<bool()> is_to_member;
};

// Of the loopback, IPv4 first. kFailedPrecondition: nobody listens there. kPermissionDenied:
// somebody does who is not of the member: any user may listen at a port that is free, and would be
// told what is meant for the member. Hardly waits: where a server takes no connections for the
// moment, the socket is still being connected, and the first use of it says how that went.
[[nodiscard]] Result<PortConnection> connect_to_port(std::uint16_t port,
                                                     const IsOfMember& is_of_member);

}  // namespace divvy::agent
