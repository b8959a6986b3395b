// HAProxy under our control: one process for all services of a daemon, unprivileged, detached from
// it, found again by the next one. Requests never go through us. Servers come, go and change their
// weights over its runtime API; where a service comes or goes, it reads a new configuration, and
// its old worker goes on until its last connection ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "proxy/haproxy_stats.h"
#include "proxy/proxy.h"

namespace divvy::proxy {

class Haproxy final : public Proxy {
 public:
  struct Options {
    std::filesystem::path folder;  // of its own; made where it is not there
    std::string address = "127.0.0.1";
  };
  explicit Haproxy(Options options);

  [[nodiscard]] Status usable() override;
  [[nodiscard]] Status check_port(std::uint16_t port) override;
  [[nodiscard]] Result<std::uint16_t> free_port(const std::set<std::uint16_t>& taken) override;
  [[nodiscard]] Result<Troubles> apply(const std::vector<Site>& sites) override;
  [[nodiscard]] Result<Report> report() override;

 private:
  [[nodiscard]] Status prepare_folder();
  // Of the master, while it runs.
  [[nodiscard]] Result<Processes> processes() const;
  // As its file of numbers says: it may be too busy to answer.
  [[nodiscard]] std::optional<pid_t> living_master() const;
  [[nodiscard]] Status await_worker(pid_t before) const;
  [[nodiscard]] Status start(const std::string& config);
  [[nodiscard]] Status reload(const std::string& config, const Processes& before);
  [[nodiscard]] Status stop();
  [[nodiscard]] Status check_config(const std::string& config);
  // It has exactly these frontends.
  [[nodiscard]] Status has_sites(const std::vector<Site>& sites) const;
  [[nodiscard]] Status adjust(const std::vector<Site>& sites) const;
  [[nodiscard]] Result<std::string> ask_worker(const std::string& question) const;
  [[nodiscard]] Result<std::string> ask_master(const std::string& question) const;
  [[nodiscard]] std::filesystem::path file(const char* name) const {
    return options_.folder / name;
  }

  Options options_;
  std::uint32_t next_port_;
  uid_t user_ = 0;                    // of haproxy, where we are root
  std::vector<std::string> as_whom_;  // what its command begins with where we are root
};

}  // namespace divvy::proxy
