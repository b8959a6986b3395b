// What port-forward does: listens here, and each connection goes through a channel of its own to a
// port of a member. Runs on the main thread, with one more for each connection.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/member_channel.h"

namespace divvy::cli {

struct Session;

struct ForwardedPort {
  std::uint16_t local = 0;  // 0: any that is free
  std::uint16_t remote = 0;
  friend bool operator==(const ForwardedPort&, const ForwardedPort&) = default;
};
// "8888", "9999:8888" or ":8888" for any local one.
[[nodiscard]] Result<ForwardedPort> parse_forwarded_port(std::string_view text);

// What is printed once it listens, of the ports with their local ends; empty: which port is which.
using ForwardedText = std::function<std::string(const std::vector<ForwardedPort>&)>;
// Where a port of the member is by now: a job that was started again may have another one. Called
// by the threads of connections; empty: where it was.
using PortNow = std::function<std::uint16_t(std::uint16_t)>;
// Until it is interrupted, which is its regular end. The exit status.
[[nodiscard]] int forward_ports(const Session& session, const MemberPlace& place,
                                const std::vector<ForwardedPort>& ports, const std::string& address,
                                const ForwardedText& text = {}, const PortNow& port_now = {});

}  // namespace divvy::cli
