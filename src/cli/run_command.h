// The command `divvy run`: takes a slice and becomes the command that is to use it. Runs on the
// main thread; on success it does not return, because the process goes on as that command.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/daemon.h"
#include "cli/style.h"

namespace divvy::cli {

struct RunOptions {
  std::optional<std::string> gpu;  // Nothing: as much as the memory is, or else one
  std::optional<std::string> memory;
  bool cap = false;
  std::string tenant_class = "batch";
  std::string mode;  // Empty: what the daemon is set to
  std::vector<std::string> devices;
  std::vector<std::string> models;
  std::string name;
  std::string queue;  // Empty: the default one
  bool wait = false;
  std::optional<std::uint32_t> timeout_seconds;
  bool quiet = false;
  std::vector<std::string> command;
};

// The libraries that a tenant's programs load.
struct RunLibraries {
  std::filesystem::path shim;    // libdivvy.so
  std::filesystem::path simgpu;  // The folder of the simulated driver; empty: not to be used
};

// The environment of the command as NAME=VALUE: the present one, with what the grant says (a JSON
// object of texts) and the libraries put in front. kPermissionDenied: the grant has anything but
// the variables of a slice. Pure.
[[nodiscard]] Result<std::vector<std::string>> command_environment(
    const std::vector<std::string>& present, const std::string& grant_environment,
    const RunLibraries& libraries);

// It could fit at another time.
[[nodiscard]] bool is_no_fit(const Reply& reply);
// Who holds what, for people: the lines under "does not fit".
[[nodiscard]] std::string holders_text(const std::string& no_fit_document);

// The exit status, when there was nothing to become.
[[nodiscard]] int run_command(const Daemon& daemon, const RunOptions& options,
                              const RunLibraries& libraries, std::ostream& err);

}  // namespace divvy::cli
