// The command line of `divvy`: reads the arguments, runs the command, prints its answer. Data goes
// to `out`, everything else to `err`. Runs on the main thread.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/daemon.h"
#include "cli/doctor.h"
#include "cli/exit_codes.h"
#include "cli/gpus.h"
#include "cli/ledger_command.h"
#include "cli/run_command.h"
#include "cli/server_contexts.h"
#include "cli/style.h"

namespace divvy::cli {

// What the commands need from the rest of Divvy.
struct Services {
  std::string version;
  Inventory inventory;
  Daemon::Options daemon = {};
  RunLibraries libraries = {};
  std::filesystem::path state_folder = {};  // Of the daemon
  std::function<DaemonSettings()> daemon_settings = {};
  LedgerReader ledger = {};
  // The CDI file of the whole GPUs.
  std::function<Result<std::string>()> cdi_file = {};
  // Removes all CDI files that Divvy has written.
  std::function<Status()> clean_cdi = {};
  // Empty: that of the system.
  std::function<WallTime()> now = {};
  // What answers for a cluster; empty: Divvy was built without Kubernetes.
  std::function<Result<net::HttpHandler>(const ServerContext&)> cluster = {};
};

// `arguments` are those of main without the program's name. Returns the exit status.
[[nodiscard]] int run(const std::vector<std::string>& arguments, const Services& services,
                      const Terminal& terminal, std::ostream& out, std::ostream& err);

}  // namespace divvy::cli
