// Whose processes are at the TCP ports of this machine's loopback, as the kernel says
// (/proc/self/net/tcp and tcp6): any user may listen at any port that is free. Callable from any
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <optional>

#include "base/result.h"

namespace divvy::sys {

struct PortSocket {
  uid_t uid = 0;            // of whoever made it
  std::uint64_t inode = 0;  // tells it from those before and after it; 0: no process has it open
  friend bool operator==(const PortSocket&, const PortSocket&) = default;
};

enum class Loopback { kV4, kV6 };

// The socket that listens and gets the connections to that address and port; of several that share
// the port, which are one user's, the first. Nothing: nobody listens. The texts begin with a line
// of headings, and sockets that listen come before all others.
[[nodiscard]] std::optional<PortSocket> find_listener(std::istream& tcp, std::istream& tcp6,
                                                      Loopback loopback, std::uint16_t port);
// The end at `port` of a connection from `from`, another port of the loopback. Nothing: it is not
// on this machine, or gone.
[[nodiscard]] std::optional<PortSocket> find_connected(std::istream& tcp, std::istream& tcp6,
                                                       Loopback loopback, std::uint16_t port,
                                                       std::uint16_t from);
// The same of the network namespace of this process.
[[nodiscard]] Result<std::optional<PortSocket>> listener_at(Loopback loopback, std::uint16_t port);
[[nodiscard]] Result<std::optional<PortSocket>> connected_at(Loopback loopback, std::uint16_t port,
                                                             std::uint16_t from);

}  // namespace divvy::sys
