// What carries requests to the replicas of services: told what there is to be, asked what it sees.
// The real one is HAProxy in a process of its own (haproxy.h), which goes on while the daemon is
// away; tests have a fake. Called by one thread, and may block for seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::proxy {

// A replica, on this machine.
struct Server {
  std::string name;  // letters, digits
  std::uint16_t port = 0;
  std::uint32_t weight = 0;  // up to 256; 0: it is looked at, and gets no new requests
  friend bool operator==(const Server&, const Server&) = default;
};

struct Site {
  std::string name;  // model/name.h
  std::uint16_t port = 0;
  std::string ready;             // a path of plain characters
  std::chrono::seconds wait{0};  // of a request while there is no server
  std::vector<Server> servers;
  friend bool operator==(const Site&, const Site&) = default;
};

struct ServerReport {
  bool healthy = false;
  bool in_rotation = false;
  std::uint32_t in_flight = 0;
  std::uint64_t requests = 0;
  std::uint64_t errors = 0;  // answers of 5xx, and none at all
  friend bool operator==(const ServerReport&, const ServerReport&) = default;
};

struct SiteReport {
  std::uint32_t in_flight = 0;   // with those that wait for a server
  std::uint64_t requests = 0;    // since the proxy began to count
  std::uint32_t latency_ms = 0;  // until the last answers began, on average
  std::map<std::string, ServerReport> servers;
  friend bool operator==(const SiteReport&, const SiteReport&) = default;
};

using Report = std::map<std::string, SiteReport>;
// Why a site is not reached: "port 8000 is taken by another program".
using Troubles = std::map<std::string, std::string>;

class Proxy {
 public:
  virtual ~Proxy() = default;
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // Whether there could be services here: the sentence says what is missing.
  [[nodiscard]] virtual Status usable() = 0;
  // Whether a service could listen there. This and usable() may be called from any thread.
  [[nodiscard]] virtual Status check_port(std::uint16_t port) = 0;
  // One for a replica that nobody uses just now and that is none of these.
  [[nodiscard]] virtual Result<std::uint16_t> free_port(const std::set<std::uint16_t>& taken) = 0;
  // Makes it so. The same again costs a look and changes nothing. Without sites it ends.
  [[nodiscard]] virtual Result<Troubles> apply(const std::vector<Site>& sites) = 0;
  // Empty where it does not run. An error: nobody knows.
  [[nodiscard]] virtual Result<Report> report() = 0;

 protected:
  Proxy() = default;
};

}  // namespace divvy::proxy
