// Processes of this machine by a name that stays theirs, and the tree below one of them. For the
// shepherd, whose tree is all that it may end, and for whoever ends what a lost shepherd left.
// Callable from any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace divvy::sys {

// A number alone may be given to another process; with the moment of its start and the boot it
// cannot.
struct ProcessMark {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::string boot;
  friend bool operator==(const ProcessMark&, const ProcessMark&) = default;
};

// Nothing when there is no such process.
[[nodiscard]] std::optional<ProcessMark> mark_of(pid_t pid);
[[nodiscard]] std::string this_boot();

// Readable when it is gone. kNotFound: it is gone already.
[[nodiscard]] Result<UniqueFd> open_process(const ProcessMark& mark);

// Does it run? One that nobody has collected yet does not.
[[nodiscard]] bool is_running(const ProcessMark& mark);

// All below `root`, not `root` itself: children, their children and so on, as of now.
[[nodiscard]] std::vector<pid_t> descendants(pid_t root);
// Sends the signal to each of them, and to nobody who has only taken over such a number.
void signal_descendants(pid_t root, int signal);

// Processes in whose environment, as it was at their start, there is this entry ("NAME=value") and
// that are not `except`. Looks only at what this user may look at.
[[nodiscard]] std::vector<pid_t> processes_with(const std::string& entry, pid_t except);

}  // namespace divvy::sys
