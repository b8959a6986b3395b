// The live screen of `divvy top`. The library behind it (ncurses) stays inside top_screen.cc. Runs
// on the main thread.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cli/daemon.h"
#include "cli/style.h"

namespace divvy::cli {

// Returns when the user quits. The terminal is as before then, also after an error.
[[nodiscard]] Status run_top_screen(const Daemon& daemon, const Style& style);

// The same for a table, which `draw` makes anew each second; where it cannot, its error is shown
// below the one of before.
using DrawTable = std::function<Result<std::string>()>;
[[nodiscard]] Status run_table_screen(const DrawTable& draw, const Style& style);

}  // namespace divvy::cli
