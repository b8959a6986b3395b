// The commands of `divvy`. Each group of commands adds its own here, with what is to be done; the
// library behind it (CLI11) keeps names, options and texts, and --help, man pages, completion and
// docs/commands.md are all made by walking them: there is no second list. Runs on the main thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace divvy::cli {

struct Session;

// The exit status. An error is a wrong use of the command, answered with a pointer to its --help.
using Action = std::function<Result<int>(const Session&)>;

// Headings of `divvy --help`.
namespace heading {
inline constexpr const char* kJobs = "Jobs";
inline constexpr const char* kGpus = "GPUs and slices";
inline constexpr const char* kPeople = "Queues and people";
inline constexpr const char* kOther = "Other commands";
}  // namespace heading

class CommandTree {
 public:
  // `root` outlives it.
  explicit CommandTree(CLI::App& root) : root_(root) {}

  [[nodiscard]] CLI::App& root() const { return root_; }

  // `footer` stands below the options: examples, exit status. Without an action it only has others
  // below it.
  CLI::App* add(const char* heading, const std::string& name, const std::string& summary,
                const std::string& footer, Action action = {});
  CLI::App* add_below(CLI::App& parent, const std::string& name, const std::string& summary,
                      const std::string& footer, Action action = {});
  void set_action(const CLI::App& command, Action action);
  // Null where it only has others below it.
  [[nodiscard]] const Action* action_of(const CLI::App& command) const;
  // Whether it does something itself, and not the one above it.
  [[nodiscard]] bool acts(const CLI::App& command) const { return actions_.contains(&command); }
  // An option or argument that was given for a command above the one that acts, which would ignore
  // it. Null: there is none.
  [[nodiscard]] const CLI::Option* ignored_option(const CLI::App& command) const;

  // An argument that is "" where that means nothing. Null: there is none.
  [[nodiscard]] const CLI::Option* empty_argument(const CLI::App& command) const;
  void may_be_empty(const CLI::Option& argument) { may_be_empty_.insert(&argument); }

  // What follows "--", or begins with the first word that is no option after `before` arguments and
  // no command below it, is a command of its own and goes to `words`, to the letter.
  void takes_command(const CLI::App& command, std::vector<std::string>& words,
                     std::size_t before = 0, std::string usage = "COMMAND [ARGUMENT...]");
  // What its usage says behind "--"; empty: it takes none.
  [[nodiscard]] std::string usage_of_tail(const CLI::App& command) const;
  [[nodiscard]] bool takes_command(const CLI::App& command) const;
  // Takes it away from `arguments`.
  void split_command(std::vector<std::string>& arguments) const;

 private:
  struct Tail {
    std::vector<std::string>* words;
    std::size_t before;
    std::string usage;
  };

  CLI::App& root_;
  std::map<const CLI::App*, Action> actions_;
  std::map<const CLI::App*, Tail> tails_;
  std::set<const CLI::Option*> may_be_empty_;
};

// -o, with the formats named in its text.
CLI::Option* add_output(CLI::App& command, std::string& format,
                        std::span<const OutputFormat> allowed);
// An option that may be repeated.
CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& text, const std::string& type);

// All commands below, those for people only, in the order in which they were added.
[[nodiscard]] std::vector<const CLI::App*> shown_commands(const CLI::App& command);
// "divvy queue set" from the command and those above it.
[[nodiscard]] std::string full_name(const CLI::App& command);
// The option of that name of the command or of one above it; null: none.
[[nodiscard]] const CLI::Option* find_option(const CLI::App& command, const std::string& word);
[[nodiscard]] bool takes_value(const CLI::Option& option);

}  // namespace divvy::cli
