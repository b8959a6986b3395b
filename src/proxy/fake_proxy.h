// A proxy without a process: the test says who is healthy and how many requests there are. Only for
// tests.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/proxy.h"

namespace divvy::proxy {

class FakeProxy final : public Proxy {
 public:
  [[nodiscard]] Status usable() override {
    if (missing) return err(ErrorCode::kUnsupported, "services need haproxy");
    return {};
  }
  [[nodiscard]] Status check_port(std::uint16_t port) override {
    if (port != taken) return {};
    return err(ErrorCode::kFailedPrecondition, "port {} is taken by another program", port);
  }
  [[nodiscard]] Result<std::uint16_t> free_port(const std::set<std::uint16_t>& ports) override {
    for (std::uint16_t port = 10'000;; ++port) {
      if (!ports.contains(port)) return port;
    }
  }
  [[nodiscard]] Result<Troubles> apply(const std::vector<Site>& wanted) override {
    ++applied;
    sites.clear();
    Troubles troubles;
    for (const Site& site : wanted) {
      if (port_taken && site.port == *port_taken) {
        troubles[site.name] = "its port is taken by another program";
      } else {
        sites.push_back(site);
      }
    }
    return troubles;
  }
  [[nodiscard]] Result<Report> report() override {
    if (silent) return err(ErrorCode::kUnavailable, "haproxy does not answer");
    Report report;
    for (const Site& site : sites) {
      SiteReport& one = report[site.name];
      one.in_flight = in_flight;
      one.requests = requests;
      one.latency_ms = latency_ms;
      for (const Server& server : site.servers) {
        one.servers[server.name] = {.healthy = healthy && !sick.contains(server.name),
                                    .in_rotation = server.weight > 0,
                                    .in_flight = 0,
                                    .requests = 0,
                                    .errors = 0};
      }
    }
    return report;
  }
  [[nodiscard]] const Site* find(const std::string& name) const {
    for (const Site& site : sites) {
      if (site.name == name) return &site;
    }
    return nullptr;
  }

  bool missing = false;
  bool silent = false;
  bool healthy = true;
  std::set<std::string> sick;
  std::uint16_t taken = 0;                  // when it is made
  std::optional<std::uint16_t> port_taken;  // since then
  std::uint32_t in_flight = 0;
  std::uint64_t requests = 0;
  std::uint32_t latency_ms = 0;
  int applied = 0;
  std::vector<Site> sites;
};

}  // namespace divvy::proxy
