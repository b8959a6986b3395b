#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace divvy::cli {

CLI::App* CommandTree::add(const char* heading, const std::string& name, const std::string& summary,
                           const std::string& footer, Action action) {
  CLI::App* command = add_below(root_, name, summary, footer, std::move(action));
  command->group(heading);
  return command;
}

CLI::App* CommandTree::add_below(CLI::App& parent, const std::string& name,
                                 const std::string& summary, const std::string& footer,
                                 Action action) {
  CLI::App* command = parent.add_subcommand(name, summary);
  command->group("Commands");
  command->footer(footer);
  if (action) set_action(*command, std::move(action));
  return command;
}

void CommandTree::set_action(const CLI::App& command, Action action) {
  actions_[&command] = std::move(action);
}

const Action* CommandTree::action_of(const CLI::App& command) const {
  // The innermost that knows what to do: some groups decide themselves what is below them.
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    const auto found = actions_.find(app);
    if (found != actions_.end()) return &found->second;
  }
  return nullptr;
}

const CLI::Option* CommandTree::ignored_option(const CLI::App& command) const {
  const CLI::App* app = &command;
  while (app != nullptr && !acts(*app)) app = app->get_parent();
  if (app == nullptr) return nullptr;
  // Those of divvy itself hold everywhere.
  for (app = app->get_parent(); app != nullptr && app != &root_; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->count() > 0) return option;
    }
  }
  return nullptr;
}

const CLI::Option* CommandTree::empty_argument(const CLI::App& command) const {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional() || may_be_empty_.contains(option)) continue;
    if (std::ranges::find(option->results(), "") != option->results().end()) return option;
  }
  return nullptr;
}

void CommandTree::takes_command(const CLI::App& command, std::vector<std::string>& words,
                                std::size_t before, std::string usage) {
  tails_[&command] = {&words, before, std::move(usage)};
}

std::string CommandTree::usage_of_tail(const CLI::App& command) const {
  const auto tail = tails_.find(&command);
  return tail == tails_.end() ? "" : tail->second.usage;
}

bool CommandTree::takes_command(const CLI::App& command) const { return tails_.contains(&command); }

void CommandTree::split_command(std::vector<std::string>& arguments) const {
  const CLI::App* command = &root_;
  std::size_t before = 0;
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    const auto tail = tails_.find(command);
    const bool dashes = *word == "--";
    if (tail == tails_.end() && dashes) return;
    if (word->starts_with("-") && !dashes) {
      const CLI::Option* option = find_option(*command, *word);
      const bool apart = word->find('=') == std::string::npos;
      if (option != nullptr && takes_value(*option) && apart && word + 1 != arguments.end()) ++word;
      continue;
    }
    const auto below =
        command->get_subcommands([&](const CLI::App* app) { return app->get_name() == *word; });
    if (!dashes && before == 0 && !below.empty()) {
      command = below.front();
      continue;
    }
    if (tail == tails_.end()) continue;
    if (!dashes && before++ < tail->second.before) continue;
    tail->second.words->assign(dashes ? word + 1 : word, arguments.end());
    arguments.erase(word, arguments.end());
    return;
  }
}

CLI::Option* add_output(CLI::App& command, std::string& format,
                        std::span<const OutputFormat> allowed) {
  std::string text = "Output format: ";
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    if (i > 0) text += i + 1 == allowed.size() ? " or " : ", ";
    text += to_string(allowed[i]);
  }
  return command.add_option("-o,--output", format, text)->type_name("FORMAT");
}

CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& text, const std::string& type) {
  return command.add_option(name, values, text + "; may be repeated")
      ->type_name(type)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::vector<const CLI::App*> shown_commands(const CLI::App& command) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* below : command.get_subcommands(nullptr)) {
    if (!below->get_group().empty()) shown.push_back(below);
  }
  return shown;
}

std::string full_name(const CLI::App& command) {
  if (command.get_parent() == nullptr) return command.get_name();
  return full_name(*command.get_parent()) + " " + command.get_name();
}

const CLI::Option* find_option(const CLI::App& command, const std::string& word) {
  // "-ojson" and "--output=json" are the option with its value.
  std::string name = word.substr(0, word.find('='));
  if (!name.starts_with("--") && name.size() > 2) name.resize(2);
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    if (const CLI::Option* option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

}  // namespace divvy::cli
