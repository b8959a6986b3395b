// Man pages and docs/commands.md, made from the same tree as --help. Pure, callable from any thread
// that has the tree to itself.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace divvy::cli {

class CommandTree;

// In roff. Of a group, with the commands below it.
[[nodiscard]] std::string man_page(const CommandTree& tree, const CLI::App& command,
                                   const std::string& version);
struct ManPage {
  std::string file;  // "divvy-submit.1"
  std::string text;
};
[[nodiscard]] std::vector<ManPage> man_pages(const CommandTree& tree, const std::string& version);

// docs/commands.md.
[[nodiscard]] std::string commands_page(const CommandTree& tree);

}  // namespace divvy::cli
