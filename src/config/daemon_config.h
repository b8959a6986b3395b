// The settings of divvyd as plain values. Whoever makes a part of the daemon copies what it needs
// from here; nothing in this struct is looked at later, except by LiveConfig when a file is read
// again. The defaults stand here; what each setting is called in the file, what it may be and what
// it means stands in schema.cc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"

namespace divvy::config {

struct FoldersConfig {
  std::filesystem::path run = "/run/divvy";
  std::filesystem::path state = "/var/lib/divvy";
};

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  bool json = false;
};

struct SocketConfig {
  mode_t mode = 0666;
  std::string group;  // Empty: the daemon's own
};

// Which label of the metrics has the machine's name: dcgm-exporter changed it in 2026.
enum class HostnameLabel { kLowerCase, kBoth };

struct MetricsConfig {
  std::string address = ":9400";  // Empty: not served
  HostnameLabel hostname_label = HostnameLabel::kLowerCase;
};

enum class SharingMode { kTimeslice, kMps };

struct SharingConfig {
  SharingMode mode = SharingMode::kTimeslice;  // For requests that name none
};

// What happens to the tenants of a GPU that fails.
enum class OnFailure { kKeep, kEnd };

struct HealthConfig {
  Duration sample_interval = std::chrono::seconds(1);
  Duration idle_interval = std::chrono::seconds(5);
  Duration answer_time = std::chrono::seconds(10);
  Duration probe_time = std::chrono::seconds(30);
  Duration suspect_time = std::chrono::minutes(1);
  Duration failing_time = std::chrono::minutes(1);
  std::uint32_t strikes = 3;
  Duration strike_window = std::chrono::minutes(10);
  Duration quarantine_time = std::chrono::minutes(1);
  Duration longest_quarantine = std::chrono::hours(1);
  Duration forget_time = std::chrono::hours(6);
  std::uint32_t probation_probes = 3;
  Duration probation_interval = std::chrono::seconds(10);
  Duration hot_time = std::chrono::seconds(10);
  std::uint32_t hot_margin_c = 5;
  OnFailure on_failure = OnFailure::kKeep;
  Duration grace_time = std::chrono::seconds(30);
  std::vector<std::uint32_t> ignored_xids;
};

struct CdiConfig {
  bool enabled = true;
  std::vector<std::filesystem::path> folders = {"/etc/cdi", "/var/run/cdi"};
  std::filesystem::path driver_root = "/";
  bool graphics = false;
};

struct LedgerConfig {
  Bytes compact = mib(4);  // Size of the journal at which it is rewritten
};

struct PrivilegesConfig {
  bool drop = true;
  std::vector<std::string> keep;  // Capabilities beyond those that Divvy needs, like SYS_ADMIN
};

struct DaemonConfig {
  FoldersConfig folders;
  LogConfig log;
  SocketConfig socket;
  MetricsConfig metrics;
  SharingConfig sharing;
  HealthConfig health;
  CdiConfig cdi;
  LedgerConfig ledger;
  PrivilegesConfig privileges;
};

}  // namespace divvy::config
