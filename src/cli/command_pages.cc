#include "cli/command_pages.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.h"
#include "cli/command_tree.h"
#include "cli/help_format.h"

namespace divvy::cli {
namespace {

// A text in which roff finds nothing to obey.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += fmt::format("\\&{}", c);
    } else {
      result += c;
    }
  }
  return result;
}

bool is_heading(std::string_view line) {
  return !line.empty() && line.front() != ' ' && line.ends_with(':') && line.size() < 40;
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

// What stands below the options: headings become sections, indented lines stay lines.
std::string roff_footer(const std::string& footer, bool sections) {
  std::string text;
  bool verbatim = false;
  bool begun = false;
  const auto set_verbatim = [&](bool wanted) {
    if (wanted != verbatim) text += wanted ? ".nf\n" : ".fi\n";
    verbatim = wanted;
  };
  for (const std::string_view line : split(footer, '\n')) {
    if (is_heading(line)) {
      set_verbatim(false);
      text += fmt::format("{} {}\n", sections ? ".SH" : ".PP\n",
                          roff(upper(line.substr(0, line.size() - 1))));
      begun = true;
      continue;
    }
    if (line.empty()) {
      set_verbatim(false);
      text += ".PP\n";
      continue;
    }
    if (!begun && sections) text += ".SH DESCRIPTION\n";
    begun = true;
    set_verbatim(line.front() == ' ');
    text += roff(line) + "\n";
  }
  set_verbatim(false);
  return text;
}

std::string option_names(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) names += "--" + name + ", ";
  names.resize(names.size() - std::min<std::size_t>(names.size(), 2));
  if (takes_value(option)) names += " " + option.get_type_name();
  return names;
}

std::string roff_options(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    const std::string names =
        option->get_positional() ? option->get_name(true) : option_names(*option);
    text += fmt::format(".TP\n.B {}\n{}\n", roff(names), roff(option->get_description()));
  }
  return text;
}

std::string dashed(const std::string& name) {
  std::string result = name;
  std::ranges::replace(result, ' ', '-');
  return result;
}

// Other pages to read: the group above and what is beside it under the same heading.
std::string see_also(const CLI::App& command) {
  std::vector<std::string> names;
  if (const CLI::App* parent = command.get_parent()) {
    names.push_back("divvy(1)");
    for (const CLI::App* other : shown_commands(*parent)) {
      if (other != &command && other->get_group() == command.get_group()) {
        names.push_back(dashed(full_name(*other)) + "(1)");
      }
    }
  } else {
    for (const CLI::App* other : shown_commands(command)) {
      names.push_back(dashed(full_name(*other)) + "(1)");
    }
  }
  return fmt::format(".SH SEE ALSO\n{}\n", roff(fmt::format("{}", fmt::join(names, ", "))));
}

void add_commands_section(const CommandTree& tree, const CLI::App& command, int depth,
                          std::string& text) {
  std::string summary = command.get_description();
  if (!summary.ends_with('.')) summary += '.';
  text += fmt::format("\n{} {}\n\n{}\n\n```text\n{}```\n",
                      std::string(static_cast<std::size_t>(depth), '#'), full_name(command),
                      summary, help_text(command));
  for (const CLI::App* below : shown_commands(command)) {
    add_commands_section(tree, *below, depth + 1, text);
  }
}

}  // namespace

std::string man_page(const CommandTree& tree, const CLI::App& command, const std::string& version) {
  const std::string name = full_name(command);
  std::string text = fmt::format(".TH {} 1 \"\" \"divvy {}\" \"Divvy\"\n",
                                 roff(upper(dashed(name))), roff(version));
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(dashed(name)), roff(command.get_description()));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n", roff(usage_text(command, tree)));
  const auto below = shown_commands(command);
  if (!below.empty()) {
    text += ".SH COMMANDS\n";
    for (const CLI::App* one : below) {
      const bool root = command.get_parent() == nullptr;
      text += fmt::format(".TP\n.B {}\n{}\n",
                          roff(root ? dashed(full_name(*one)) + "(1)" : usage_text(*one, tree)),
                          roff(one->get_description()));
      if (root) continue;
      text += ".RS\n" + roff_options(*one) + roff_footer(one->get_footer(), false) + ".RE\n";
    }
  }
  text += ".SH OPTIONS\n" + roff_options(command);
  if (command.get_parent() != nullptr) {
    text +=
        ".PP\n\\-\\-context, \\-\\-server and \\-\\-color are understood by every command; see "
        "divvy(1).\n";
  }
  return text + roff_footer(command.get_footer(), true) + see_also(command);
}

std::vector<ManPage> man_pages(const CommandTree& tree, const std::string& version) {
  std::vector<ManPage> pages{{"divvy.1", man_page(tree, tree.root(), version)}};
  for (const CLI::App* command : shown_commands(tree.root())) {
    pages.push_back({dashed(full_name(*command)) + ".1", man_page(tree, *command, version)});
  }
  return pages;
}

std::string commands_page(const CommandTree& tree) {
  std::string text =
      "# Commands\n\n"
      "What `divvy --help` and `divvy COMMAND --help` print. This page is written by `divvy man\n"
      "--markdown`; a test compares the two.\n";
  add_commands_section(tree, tree.root(), 2, text);
  return text;
}

}  // namespace divvy::cli
