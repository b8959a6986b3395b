// The live screen of `divvy top`. The library behind it (ncurses) stays inside top_screen.cc. Runs
// on the main thread.
#pragma once

#include "base/result.h"
#include "cli/daemon.h"
#include "cli/style.h"

namespace divvy::cli {

// Returns when the user quits. The terminal is as before then, also after an error.
[[nodiscard]] Status run_top_screen(const Daemon& daemon, const Style& style);

}  // namespace divvy::cli
