// Which daemon the commands ask. Somebody who works with several names each in a context, in the
// file ~/.config/divvy/config.yaml; without one it is the daemon of this machine. An option goes
// before the environment, and that before the file. Tokens are in files of their own and are never
// shown. Runs on the main thread; reading is pure, and any bytes are safe to pass.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http.h"

namespace divvy::cli {

struct ServerContext {
  std::string name;
  std::string server;      // "https://gpu.example:7443", "unix:/run/divvy/api.sock"
  std::string ca;          // A file with the authorities to believe; empty: those of this machine
  std::string token_file;  // Empty: none
  // Instead of a server: a cluster, by a context of a kubeconfig.
  std::string kubeconfig = {};    // The file
  std::string kube_context = {};  // Empty: the one that it names itself
  std::string space = {};         // The namespace; empty: as that context has it
  [[nodiscard]] bool is_cluster() const { return !kubeconfig.empty(); }
  friend bool operator==(const ServerContext&, const ServerContext&) = default;
};

struct ClientConfig {
  std::string context;  // The one in use; empty: this machine
  std::string queue;    // For `divvy submit` where nothing else names one
  std::vector<ServerContext> contexts;
  friend bool operator==(const ClientConfig&, const ClientConfig&) = default;

  [[nodiscard]] ServerContext* find(std::string_view name);
  [[nodiscard]] const ServerContext* find(std::string_view name) const;
};

// Errors are "FILE:3:5: what", one line for each. `file` is only for them.
[[nodiscard]] Result<ClientConfig> read_client_config(std::string_view text,
                                                      const std::string& file);
[[nodiscard]] std::string write_client_config(const ClientConfig& config);

using Environment = std::function<std::optional<std::string>(const char*)>;
// DIVVY_CONFIG, else below XDG_CONFIG_HOME, else below HOME.
[[nodiscard]] Result<std::filesystem::path> client_config_file(const Environment& environment);
// Nothing in it where there is none.
[[nodiscard]] Result<ClientConfig> load_client_config(const Environment& environment);
// All or nothing, readable for nobody else.
[[nodiscard]] Status save_client_config(const Environment& environment, const ClientConfig& config);

// "https://HOST:PORT", "http://HOST:PORT" or "unix:PATH".
[[nodiscard]] Result<net::HttpTarget> parse_server(std::string_view text,
                                                   const std::filesystem::path& ca);

// kFailedPrecondition: a token would cross a network in the clear on the way there, or back.
[[nodiscard]] Status check_keeps_secrets(const net::HttpTarget& target);

// From the command line.
struct ServerChoice {
  std::optional<std::string> context;
  std::optional<std::string> server;
};
struct ChosenServer {
  std::optional<net::HttpTarget> target;  // Nothing: the daemon of this machine
  std::string token;
  std::optional<ServerContext> cluster = {};  // Instead of any daemon
};
// DIVVY_CONTEXT, DIVVY_SERVER and DIVVY_TOKEN are the environment's. A token does not travel in the
// clear to another machine: kFailedPrecondition.
[[nodiscard]] Result<ChosenServer> choose_server(const ServerChoice& choice,
                                                 const Environment& environment);

}  // namespace divvy::cli
