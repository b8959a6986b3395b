// Commands that are about the machine they run on: its GPUs, its slices, its files. divvyd serves
// those on its own socket only. Runs on the main thread.
#pragma once

#include <string_view>

#include "base/result.h"

namespace divvy::cli {

struct Session;

// kInvalidArgument where --server, --context or the settings choose a divvyd on the network.
// `instead` is a command that works there, if there is one.
[[nodiscard]] Status check_on_this_machine(const Session& session, std::string_view instead = {});

}  // namespace divvy::cli
