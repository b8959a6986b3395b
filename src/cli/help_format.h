// What `divvy COMMAND --help` prints, made from the tree of commands. Runs on the main thread.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace divvy::cli {

class CommandTree;

// For the root and everything that is added below it. `tree` outlives it.
void set_help_format(CLI::App& root, const CommandTree& tree);

[[nodiscard]] std::string help_text(const CLI::App& command);
// "divvy exec [options] JOB -- COMMAND [ARGUMENT...]"
[[nodiscard]] std::string usage_text(const CLI::App& command, const CommandTree& tree);

}  // namespace divvy::cli
