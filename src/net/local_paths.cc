#include "net/local_paths.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace divvy::net {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> from_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

}  // namespace

fs::path system_run_folder() { return "/run/divvy"; }

fs::path run_folder() {
  if (const auto named = from_environment("DIVVY_RUN_DIR")) return *named;
  if (::geteuid() == 0) return system_run_folder();
  if (const auto session = from_environment("XDG_RUNTIME_DIR")) return *session / "divvy";
  return "/tmp/divvy-" + std::to_string(::geteuid());
}

ClientRun client_run_folder(bool simulated, const fs::path& machine) {
  std::error_code code;
  const bool named = from_environment("DIVVY_RUN_DIR").has_value();
  if (named || simulated || ::geteuid() == 0 || !fs::exists(machine / "divvyd.lock", code)) {
    return {run_folder(), false};
  }
  return {machine, true};
}

fs::path state_folder() {
  if (const auto named = from_environment("DIVVY_STATE_DIR")) return *named;
  if (const auto run = from_environment("DIVVY_RUN_DIR")) return *run / "state";
  if (::geteuid() == 0) return "/var/lib/divvy";
  if (const auto state = from_environment("XDG_STATE_HOME")) return *state / "divvy";
  if (const auto home = from_environment("HOME")) return *home / ".local/state/divvy";
  return run_folder() / "state";
}

fs::path api_socket(const fs::path& run) { return run / "divvyd.sock"; }

}  // namespace divvy::net
