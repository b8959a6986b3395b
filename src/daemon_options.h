// The command line of `divvyd` and the settings that follow from it. Composition.
#pragma once

#include <filesystem>
#include <variant>

#include "config/live_config.h"

namespace divvy {

struct DaemonOptions {
  config::LiveConfig settings;
  bool background = false;
  std::filesystem::path restore;  // A backup: put the store back to it and end
};

// The options to serve with, or the exit status where the command line was about something else or
// was wrong; everything is printed already.
[[nodiscard]] std::variant<DaemonOptions, int> parse_daemon_options(int argc, char** argv);

}  // namespace divvy
