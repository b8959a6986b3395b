#include "cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/help_format.h"
#include "cli/help_texts.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

struct Group {
  void (*add)(CommandTree& tree);
  std::vector<std::string_view> commands;
};

// In the order in which help shows them.
const std::vector<Group>& groups() {
  static const std::vector<Group> kGroups = {
      {add_submit_command, {"submit"}},
      {add_serve_commands, {"serve"}},
      {add_job_views, {"list", "get", "describe", "explain"}},
      {add_logs_command, {"logs"}},
      {add_wait_command, {"wait"}},
      {add_templates_command, {"templates"}},
      {add_sweep_command, {"sweep"}},
      {add_schedule_commands, {"schedule"}},
      {add_job_actions, {"suspend", "resume", "requeue", "update", "delete", "prune"}},
      {add_member_commands, {"exec", "attach", "port-forward", "cp"}},
      {add_mpi_commands, {"mpi-member", "mpi-start"}},
      {add_session_commands, {"session"}},
      {add_ssh_commands, {"ssh", "ssh-config", "ssh-proxy"}},
      {add_tenant_commands, {"run", "set", "ps", "top", "slice"}},
      {add_machine_commands, {"gpus", "gpu", "nodes", "events", "doctor", "ledger", "cdi"}},
      {add_queue_commands, {"queue", "quota", "usage"}},
      {add_people_commands, {"user", "token", "whoami"}},
      {add_secret_commands, {"secret"}},
      {add_login_commands, {"login", "logout"}},
      {add_audit_command, {"audit"}},
      {add_backup_commands, {"backup", "restore"}},
      {add_context_commands, {"context", "config"}},
      {add_replay_commands, {"sim", "bench"}},
      // They tell of all commands.
      {add_page_commands, {}}};
  return kGroups;
}

// The group of `word` alone, where it begins with a command: to make all commands takes longer than
// most of them take. All of them for help, completion and whatever is no command.
void add_commands(CommandTree& tree, std::string_view word) {
  for (const Group& group : groups()) {
    if (std::ranges::find(group.commands, word) != group.commands.end()) return group.add(tree);
  }
  for (const Group& group : groups()) group.add(tree);
}

struct CommandLine {
  CLI::App app{"Divvy shares GPUs: it cuts them into slices and keeps everybody inside theirs."};
  CommandTree tree{app};
  std::string color = "auto";
  bool wants_version = false;
  ServerChoice choice;

  // `word` is what was typed first.
  explicit CommandLine(std::string_view word) {
    app.name("divvy");
    app.footer(kMainFooter);
    app.set_help_flag("-h,--help", "Print this text");
    app.add_flag("--version", wants_version, "Print the version");
    app.add_option("--color", color, "When to use colours: auto, always or never")
        ->type_name("WHEN");
    app.add_option("--context", choice.context,
                   "Ask the divvyd of this context; local is this machine's")
        ->type_name("CONTEXT");
    app.add_option("--server", choice.server, "Ask this divvyd: https://HOST:PORT or unix:PATH")
        ->type_name("URL");
    // Options of `divvy` are also understood after the command.
    app.fallthrough();
    set_help_format(app, tree);

    add_commands(tree, word);
    one_command_only(app);
  }

  // A job may be called "list": once a command is chosen, its arguments name no other one.
  static void one_command_only(CLI::App& command) {
    command.require_subcommand(0, 1);
    for (CLI::App* below : command.get_subcommands(nullptr)) one_command_only(*below);
  }

  // The innermost command that was named.
  const CLI::App& chosen() const {
    const CLI::App* command = &app;
    while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
    return *command;
  }
};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : shown_commands(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CommandLine& line) {
  std::vector<std::string> names;
  const auto add = [&names](const CLI::App& app) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  };
  add(line.chosen());
  if (&line.chosen() != &line.app) add(line.app);
  return names;
}

// What other programs call what Divvy does: fingers type it by habit.
std::optional<std::string_view> by_another_name(std::string_view word) {
  struct Habit {
    std::string_view typed;
    std::string_view meant;
  };
  constexpr Habit kHabits[] = {
      {"cancel", "delete"},  {"kill", "delete"},   {"stop", "delete"},     {"rm", "delete"},
      {"scancel", "delete"}, {"qdel", "delete"},   {"bkill", "delete"},    {"jobs", "list"},
      {"squeue", "list"},    {"qstat", "list"},    {"bjobs", "list"},      {"sacct", "list --all"},
      {"status", "get"},     {"sbatch", "submit"}, {"qsub", "submit"},     {"bsub", "submit"},
      {"srun", "run"},       {"salloc", "run"},    {"scontrol", "update"}, {"sinfo", "nodes"},
      {"nvidia-smi", "gpus"}};
  for (const Habit& habit : kHabits) {
    if (habit.typed == word) return habit.meant;
  }
  return std::nullopt;
}

// The message for the first word that nobody understood.
std::string unknown_word(const CommandLine& line, const std::string& word) {
  // "--colour=never" is a mistake in the part before the "=".
  const bool is_option = word.starts_with("-");
  const std::string bare = is_option ? word.substr(0, word.find('=')) : word;
  const std::string shown = escape_for_terminal(bare);
  const std::string place = "`" + full_name(line.chosen()) + "`";

  std::string text;
  std::vector<std::string> candidates;
  if (is_option) {
    text = fmt::format("{} has no option {}", place, shown);
    candidates = option_names(line);
  } else {
    candidates = command_names(line.chosen());
    text = candidates.empty() ? fmt::format("{} takes no argument \"{}\"", place, shown)
                              : fmt::format("there is no command \"{}\"", shown);
  }
  const auto habit = by_another_name(bare);
  if (habit && &line.chosen() == &line.app) {
    text += fmt::format("; that is `divvy {}`", *habit);
  } else if (const auto meant = did_you_mean(bare, std::span<const std::string>(candidates))) {
    text += fmt::format("; did you mean {}?", *meant);
  } else if (!is_option && !candidates.empty()) {
    text += fmt::format("; commands are {}", fmt::join(candidates, ", "));
  }
  return text;
}

// Every option that is converted is a whole number.
std::string not_a_number(std::string_view what) {
  constexpr std::string_view kBegin = "Could not convert: ";
  const std::size_t equals = what.find(" = ");
  if (!what.starts_with(kBegin) || equals == std::string_view::npos) {
    return escape_for_terminal(what);
  }
  return fmt::format("{}: \"{}\" is no number that it takes; write a whole one, like 4",
                     what.substr(kBegin.size(), equals - kBegin.size()),
                     escape_for_terminal(what.substr(equals + 3, 40)));
}

class Run {
 public:
  Run(const Services& services, const Terminal& terminal, std::ostream& out, std::ostream& err,
      std::string_view word)
      : services_(services), terminal_(terminal), out_(out), err_(err), line_(word) {}

  int operator()(std::vector<std::string> arguments) {
    // `divvy help submit` is `divvy submit --help`.
    if (!arguments.empty() && arguments.front() == "help") {
      arguments.erase(arguments.begin());
      arguments.emplace_back("--help");
    }
    line_.tree.split_command(arguments);
    try {
      // CLI11 takes the words from the back.
      line_.app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      const std::vector<std::string> rest = line_.app.remaining(true);
      const bool no_such_command = !rest.empty() && !rest.front().starts_with("-") &&
                                   !shown_commands(line_.chosen()).empty();
      if (no_such_command) return usage(unknown_word(line_, rest.front()));
      return session().print(help_text(line_.chosen()));
    } catch (const CLI::ExtrasError&) {
      const std::vector<std::string> rest = line_.app.remaining(true);
      return usage(rest.empty() ? "too many arguments" : unknown_word(line_, rest.front()));
    } catch (const CLI::RequiredError& error) {
      const std::string_view what = error.what();
      return usage(fmt::format("{} is missing", what.substr(0, what.find(' '))));
    } catch (const CLI::ArgumentMismatch& error) {
      const std::string_view what = error.what();
      return usage(fmt::format("{} needs a value", what.substr(0, what.find(':'))));
    } catch (const CLI::ConversionError& error) {
      return usage(not_a_number(error.what()));
    } catch (const CLI::ParseError& error) {
      return usage(escape_for_terminal(error.what()));
    }
    if (const CLI::Option* ignored = line_.tree.ignored_option(line_.chosen())) {
      return usage(
          fmt::format("{} does not take {}", full_name(line_.chosen()), ignored->get_name()));
    }
    if (const CLI::Option* empty = line_.tree.empty_argument(line_.chosen())) {
      return usage(fmt::format("{} is empty; is it a variable of the shell that is not set?",
                               empty->get_name(true)));
    }
    const auto choice = parse_color_choice(line_.color);
    if (!choice) return usage(choice.error().message);
    style_ = choose_style(terminal_, *choice);

    if (line_.wants_version) return session().print("divvy " + services_.version + "\n");
    const Action* action = line_.tree.action_of(line_.chosen());
    if (action == nullptr) return session().print(help_text(line_.chosen()));
    const auto status = (*action)(session());
    return status ? *status : usage(status.error().message);
  }

 private:
  Session session() {
    return {services_, terminal_, style_, out_, err_, line_.tree, line_.chosen(), line_.choice};
  }

  int usage(const std::string& message) {
    err_ << "divvy: " << message << "\nTry `" << full_name(line_.chosen()) << " --help`.\n";
    return kExitUsage;
  }

  const Services& services_;
  const Terminal& terminal_;
  std::ostream& out_;
  std::ostream& err_;
  CommandLine line_;
  Style style_;
};

}  // namespace

int run(const std::vector<std::string>& arguments, const Services& services,
        const Terminal& terminal, std::ostream& out, std::ostream& err) {
  const bool asks_for_help = arguments.size() > 1 && arguments.front() == "help";
  const std::string_view word =
      arguments.empty() ? std::string_view() : arguments[asks_for_help ? 1 : 0];
  return Run(services, terminal, out, err, word)(arguments);
}

}  // namespace divvy::cli
