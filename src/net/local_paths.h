// Where the daemon of this machine can be found: the same answer for everybody who asks with the
// same environment. Callable from any thread.
#pragma once

#include <filesystem>

namespace divvy::net {

// The run folder of the machine's own daemon, which serves everybody.
[[nodiscard]] std::filesystem::path system_run_folder();
// DIVVY_RUN_DIR, else /run/divvy for root, else $XDG_RUNTIME_DIR/divvy, else /tmp/divvy-<uid>.
[[nodiscard]] std::filesystem::path run_folder();
// Where a command looks for the daemon: DIVVY_RUN_DIR, else the folder of root's daemon where this
// machine has one, whether or not it runs just now (two daemons would grant the same GPUs twice),
// else run_folder(). For simulated GPUs everybody has a daemon of their own.
struct ClientRun {
  std::filesystem::path folder;
  bool of_the_machine = false;  // Root's, and we are not root
};
[[nodiscard]] ClientRun client_run_folder(bool simulated,
                                          const std::filesystem::path& machine = "/run/divvy");
// DIVVY_STATE_DIR, else "state" in DIVVY_RUN_DIR, else /var/lib/divvy for root, else
// $XDG_STATE_HOME/divvy, else ~/.local/state/divvy, else "state" in the run folder.
[[nodiscard]] std::filesystem::path state_folder();

// The local API inside a run folder.
[[nodiscard]] std::filesystem::path api_socket(const std::filesystem::path& run);

}  // namespace divvy::net
