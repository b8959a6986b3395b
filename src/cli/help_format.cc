#include "cli/help_format.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command_tree.h"

namespace divvy::cli {
namespace {

// CLI11's help with a little more air in it.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(const CommandTree& tree) : tree_(tree) {
    column_width(24);
    label("OPTIONS", "options");
    label("SUBCOMMAND", "COMMAND");
  }
  std::string make_description(const CLI::App* app) const override {
    return CLI::Formatter::make_description(app) + "\n";
  }
  std::string make_usage(const CLI::App* app, std::string /*name*/) const override {
    return "Usage: " + usage_text(*app, tree_) + "\n";
  }

 private:
  const CommandTree& tree_;
};

}  // namespace

void set_help_format(CLI::App& root, const CommandTree& tree) {
  root.formatter(std::make_shared<HelpFormatter>(tree));
}

std::string help_text(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent != nullptr) return command.help(full_name(*parent));
  // Asked for its help, it would give that of the command that was typed.
  return command.get_formatter()->make_help(&command, command.get_name(),
                                            CLI::AppFormatMode::Normal);
}

std::string usage_text(const CLI::App& command, const CommandTree& tree) {
  std::string text = full_name(command) + " [options]";
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true);
    const std::string many = option->get_items_expected_max() > 1 ? "..." : "";
    text += option->get_required() ? fmt::format(" {}{}", name, many)
                                   : fmt::format(" [{}{}]", name, many);
  }
  if (tree.takes_command(command)) {
    // Of what follows, another COMMAND would say nothing; those below have a list of their own.
    text += " -- " + tree.usage_of_tail(command);
  } else if (!shown_commands(command).empty()) {
    text += tree.action_of(command) == nullptr && command.get_parent() != nullptr ? " COMMAND"
                                                                                  : " [COMMAND]";
  }
  return text;
}

}  // namespace divvy::cli
