// Where the daemon of this machine can be found: the same answer for everybody who asks with the
// same environment. Callable from any thread.
#pragma once

#include <filesystem>

namespace divvy::net {

// DIVVY_RUN_DIR, else /run/divvy for root, else $XDG_RUNTIME_DIR/divvy, else /tmp/divvy-<uid>.
[[nodiscard]] std::filesystem::path run_folder();
// DIVVY_STATE_DIR, else "state" in DIVVY_RUN_DIR, else /var/lib/divvy for root, else
// $XDG_STATE_HOME/divvy, else ~/.local/state/divvy, else "state" in the run folder.
[[nodiscard]] std::filesystem::path state_folder();

// The local API inside a run folder.
[[nodiscard]] std::filesystem::path api_socket(const std::filesystem::path& run);

}  // namespace divvy::net
