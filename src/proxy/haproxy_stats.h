// What HAProxy answers on its sockets. Pure; any bytes are safe to pass.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "proxy/proxy.h"

namespace divvy::proxy {

// A line of `show stat`, as far as we look at it.
struct StatLine {
  std::string proxy;
  std::string server;  // or FRONTEND, BACKEND
  std::uint32_t in_flight = 0;
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;
  // On average over the last 1024 requests: in line, until the server was reached, until it
  // answered.
  std::uint32_t latency_ms = 0;
  friend bool operator==(const StatLine&, const StatLine&) = default;
};
[[nodiscard]] Result<std::vector<StatLine>> read_stat(std::string_view text);

// A line of `show servers state`.
struct ServerState {
  std::string proxy;
  std::string server;
  bool up = false;
  bool maintained = false;  // taken out altogether
  bool drained = false;     // gets no new requests
  bool passed = false;      // its last check
  std::uint32_t weight = 0;
  friend bool operator==(const ServerState&, const ServerState&) = default;
};
[[nodiscard]] Result<std::vector<ServerState>> read_servers_state(std::string_view text);

// `show proc` of the master.
struct Processes {
  pid_t master = 0;
  pid_t worker = 0;
  std::vector<pid_t> old_workers;  // they end when their last connection does
  friend bool operator==(const Processes&, const Processes&) = default;
};
[[nodiscard]] Result<Processes> read_processes(std::string_view text);

}  // namespace divvy::proxy
