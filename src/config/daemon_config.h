// The settings of divvyd as plain values. Whoever makes a part of the daemon copies what it needs
// from here; nothing in this struct is looked at later, except by LiveConfig when a file is read
// again. The defaults stand here; what each setting is called in the file, what it may be and what
// it means stands in schema.cc.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
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

struct MetricsConfig {
  std::string address = ":9400";  // "off": not served
  Duration oldest_sample = std::chrono::seconds(60);
  bool old_hostname_label = false;
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
  OnFailure on_failure = OnFailure::kKeep;
  Duration grace_time = std::chrono::seconds(30);
  Duration suspect_time = std::chrono::seconds(60);
  Duration failing_time = std::chrono::seconds(60);
  std::uint32_t strikes = 3;
  Duration strike_window = std::chrono::minutes(10);
  Duration quarantine_time = std::chrono::seconds(60);
  Duration longest_quarantine = std::chrono::hours(1);
  Duration forget_time = std::chrono::hours(6);
  std::uint32_t probation_probes = 3;
  Duration probation_interval = std::chrono::seconds(10);
  Duration hot_time = std::chrono::seconds(10);
  std::uint32_t hot_margin_c = 5;
  std::vector<std::uint32_t> ignored_xids;
};

struct CdiConfig {
  bool enabled = true;
  std::filesystem::path folder;  // Empty: the ones that runtimes look into by themselves
  bool graphics = false;
};

// How members in containers are started.
struct ContainersConfig {
  std::vector<std::string> podman = {"podman"};  // The program with its global options
  std::vector<std::string> options;              // For `podman run`, before Divvy's own
  bool rootless = true;                          // Root's daemon has the job's own user run podman
  std::filesystem::path storage;  // Images of rootless containers; empty: the user's home
};

struct PrivilegesConfig {
  bool drop = true;
  std::vector<std::string> keep;  // Capabilities beyond those that Divvy needs, like SYS_ADMIN
};

// How placement chooses between nodes and GPUs; the names of place::policies() that suit a daemon.
enum class PlacementPolicy { kDivvy, kBundle, kSpread, kTopology };
inline constexpr std::array<std::string_view, 4> kPlacementPolicies{"divvy", "bundle", "spread",
                                                                    "topology"};

// How jobs are queued, for everybody; queues and users are set while the daemon runs.
struct QueueConfig {
  Duration half_life = std::chrono::hours(24);
  bool preemption = true;
  std::uint32_t reservations = 4;
  Duration passing = std::chrono::minutes(10);
  PlacementPolicy policy = PlacementPolicy::kDivvy;
  Duration default_time_limit = Duration(0);  // Of a job that names none; zero: without end
  Duration max_time_limit = Duration(0);      // That a job may name; zero: any
  Duration keep_finished = std::chrono::hours(24 * 30);  // Zero: for ever
  std::uint32_t keep_finished_jobs = 100'000;            // Zero: any number
  std::uint32_t keep_logs_gib = 0;                       // Zero: any amount
  Duration idle_after = Duration(0);  // Zero: a job may hold a GPU and not use it
  Duration idle_warning = Duration(0);
  std::uint32_t max_waiting = 40'000;  // Jobs and tasks; more make every list slow
  std::uint32_t max_waiting_per_user = 10'000;
};

struct ApiConfig {
  std::string address = "off";        // HOST:PORT: the API for the network, too
  std::filesystem::path certificate;  // PEM; empty: without TLS
  std::filesystem::path key;
  std::uint32_t max_rate = 100;  // Requests a second of one caller
  bool console = true;           // The web console, at the same address
  // Forwarded ports are kept for so long without a connection of the client.
  Duration keep_channels = std::chrono::minutes(10);
};

// OpenID Connect, beside tokens.
struct SignInConfig {
  std::string issuer;  // Empty: nobody signs in but with a token
  std::string name;    // Of the provider, for people; empty: its host
  std::string client_id;
  std::filesystem::path client_secret_file;  // Empty: a public client
  std::filesystem::path authorities;         // A PEM file; empty: those of this machine
  std::vector<std::string> scopes = {"profile"};
  std::string console_url;  // Empty: not in browsers
  std::string user_claim = "preferred_username";
  std::string user_domain;
  std::string groups_claim = "groups";
  std::vector<std::string> allowed_groups;  // Empty: any
  std::vector<std::string> admin_groups;    // Empty: roles are given here
  bool new_users = false;
  Duration token_time = std::chrono::hours(12);
};

enum class ServiceAddress { kThisMachine, kAllOfIpv4, kAll };

struct ServicesConfig {
  ServiceAddress address = ServiceAddress::kThisMachine;  // where services listen
};

// Messages to webhooks that jobs name.
struct NotificationsConfig {
  bool enabled = true;
  std::vector<std::string> allowed_hosts;  // empty: any
};

struct DaemonConfig {
  FoldersConfig folders;
  LogConfig log;
  SocketConfig socket;
  MetricsConfig metrics;
  SharingConfig sharing;
  HealthConfig health;
  QueueConfig queue;
  ApiConfig api;
  SignInConfig sign_in;
  ServicesConfig services;
  NotificationsConfig notifications;
  CdiConfig cdi;
  ContainersConfig containers;
  PrivilegesConfig privileges;
};

}  // namespace divvy::config
