// Where a server listens, or is, on the network: "ADDRESS:PORT" as people write it. A plain value.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::net {

struct TcpAddress {
  std::string host;  // A name or a number without brackets; empty: every address of this machine
  std::uint16_t port = 0;  // 0: any that is free

  // "127.0.0.1:9400", "[::1]:9400", "node-a:9400" or ":9400".
  [[nodiscard]] static Result<TcpAddress> parse(std::string_view text);
  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};
// As parse() reads it.
[[nodiscard]] std::string to_string(const TcpAddress& address);

// An address as the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// What a name stands for, best first: never empty. Asks the resolver, which may take a while unless
// the host is a number or empty.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const TcpAddress& address);

}  // namespace divvy::net
