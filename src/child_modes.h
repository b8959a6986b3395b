// What divvyd does when it is started by itself: `--sampler FD` asks the driver about the GPUs for
// the daemon, `--probe UUID` works one of them for a moment; both may be killed at any time.
// `--shepherd FOLDER` looks after a member of a job and outlives the daemon.
// `--relay FOLDER` keeps the channels into a member, and outlives it, too.
// `--remove-container FOLDER` removes the container of a member whose shepherd is gone.
#pragma once

#include <optional>

namespace divvy {

// The exit status of such a process; nothing when this is the daemon.
[[nodiscard]] std::optional<int> run_as_child(int argc, char** argv);

}  // namespace divvy
