// `divvy top nodes` and `divvy top jobs`.
#pragma once

#include "cli/command_tree.h"

namespace divvy::cli {

// Below `divvy top`.
void add_top_tables(CommandTree& tree, CLI::App& top);

}  // namespace divvy::cli
