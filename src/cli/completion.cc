#include "cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "base/text.h"
#include "cli/command_tree.h"

namespace divvy::cli {
namespace {

constexpr const char* kBash = R"(# divvy in bash: source <(divvy completion bash)
_divvy() {
  local IFS=$'\n' line word cur=${COMP_WORDS[COMP_CWORD]} files=
  COMPREPLY=()
  # What stands before the cursor, as bash cuts it: "=" and ":" are words of their own there.
  local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  while read -r line; do
    if [[ $line == :files ]]; then
      files=1
    else
      word=${line%%$'\t'*}
      # One with a space in it, like a model of a GPU, stays one word.
      [[ $word == *' '* ]] && printf -v word %q "$word"
      COMPREPLY+=("$word")
    fi
  done < <(divvy __complete -- "${words[@]}" 2>/dev/null)
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen -f -- "$cur"))
  fi
}
complete -F _divvy divvy
)";

constexpr const char* kZsh = R"(#compdef divvy
# divvy in zsh: a file _divvy in a folder of $fpath
_divvy() {
  local line files=
  local -a candidates
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=1
    else
      candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done < <(divvy __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( ${#candidates} )) && _describe -t divvy divvy candidates
  [[ -n $files ]] && _files
  return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _divvy "$@"
else
  compdef _divvy divvy
fi
)";

constexpr const char* kFish = R"(# divvy in fish: ~/.config/fish/completions/divvy.fish
function __divvy_complete
  set -l words (commandline -opc) (commandline -ct)
  for line in (divvy __complete -- $words[2..-1] 2>/dev/null)
    if test "$line" = ":files"
      __fish_complete_path (commandline -ct)
    else
      echo $line
    end
  end
end
complete -c divvy -f -a '(__divvy_complete)'
)";

// "Output format: table, json or yaml": the words that a text lists after its colon, where it does.
std::vector<Candidate> listed_words(const std::string& description) {
  const std::size_t colon = description.find(": ");
  if (colon == std::string::npos) return {};
  std::string list = description.substr(colon + 2);
  list.resize(std::min(list.size(), list.find_first_of(";(")));
  for (std::size_t at = 0; (at = list.find(" or ")) != std::string::npos;) {
    list.replace(at, 4, ", ");
  }
  std::vector<Candidate> words;
  for (const std::string_view piece : split(list, ',')) {
    const std::string word(trim(piece));
    if (word.empty() ||
        !std::ranges::all_of(word, [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; })) {
      return {};
    }
    words.push_back({word, ""});
  }
  return words.size() > 1 ? words : std::vector<Candidate>{};
}

// What divvyd or the configuration can name.
bool has_names(const std::string& type) {
  constexpr std::string_view kKinds[] = {"JOB",    "QUEUE", "USER",  "GPU",  "CONTEXT",
                                         "TENANT", "SLICE", "MODEL", "TOKEN"};
  return std::ranges::find(kKinds, type) != std::end(kKinds);
}

bool is_file(const std::string& type) {
  return type == "FILE" || type == "FOLDER" || type == "CSV" || type == "FROM" || type == "TO";
}

Candidates values_of(const CLI::Option& option, const CLI::App& command,
                     const FindNames& find_names) {
  const std::string type = option.get_positional() ? option.get_name(true) : option.get_type_name();
  if (is_file(type)) return {.words = {}, .files = true};
  if (type == "CLASS") return {.words = {{"batch", ""}, {"latency", ""}}, .files = false};
  if (type == "SHELL") return {.words = {{"bash", ""}, {"fish", ""}, {"zsh", ""}}, .files = false};
  if (has_names(type)) {
    return {.words = find_names(type, command.get_name()), .files = false};
  }
  return {.words = listed_words(option.get_description()), .files = false};
}

void add_options(const CommandTree& tree, const CLI::App& command, std::vector<Candidate>& words) {
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    // A command that acts itself does not take what is for the one above it, but for divvy's own.
    if (app != &command && app->get_parent() != nullptr && tree.acts(command)) continue;
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        const Candidate candidate{"--" + name, option->get_description()};
        if (std::ranges::find(words, candidate.word, &Candidate::word) == words.end()) {
          words.push_back(candidate);
        }
      }
    }
  }
}

// The commands below the one that `words` name: `divvy man queue s`.
std::vector<Candidate> commands_below(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* command = &root;
  for (const std::string& word : words) {
    const auto below = shown_commands(*command);
    const auto found = std::ranges::find(below, word, &CLI::App::get_name);
    if (found == below.end()) return {};
    command = *found;
  }
  std::vector<Candidate> commands;
  for (const CLI::App* one : shown_commands(*command)) {
    commands.push_back({one->get_name(), one->get_description()});
  }
  return commands;
}

Candidates arguments_of(const CommandTree& tree, const CLI::App& command,
                        const std::vector<std::string>& before, const FindNames& find_names) {
  std::size_t nth = before.size();
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const bool many = option->get_items_expected_max() > 1;
    if ((nth == 0 || many) && option->get_name(true) == "COMMAND") {
      return {.words = commands_below(tree.root(), before), .files = false};
    }
    if (nth == 0 || many) return values_of(*option, command, find_names);
    --nth;
  }
  if (!tree.takes_command(command)) return {};
  return {.words = find_names("PROGRAM", command.get_name()), .files = true};
}

void keep_beginning(Candidates& candidates, std::string_view beginning) {
  std::erase_if(candidates.words,
                [&](const Candidate& candidate) { return !candidate.word.starts_with(beginning); });
}

}  // namespace

Candidates complete(const CommandTree& tree, const std::vector<std::string>& words,
                    const FindNames& find_names) {
  const CLI::App* command = &tree.root();
  const std::string current = words.empty() ? "" : words.back();
  const CLI::Option* waiting = nullptr;  // for its value
  std::vector<std::string> arguments;
  std::optional<std::size_t> program;  // Words of somebody else's command line, where it has begun
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (waiting != nullptr) {
      waiting = nullptr;
    } else if (program) {
      ++*program;
      arguments.push_back(word);
    } else if (word == "--") {
      program = 0;
    } else if (word.starts_with("-") && word.size() > 1) {
      const CLI::Option* option = find_option(*command, word);
      const bool apart =
          word.find('=') == std::string::npos && (word.starts_with("--") || word.size() == 2);
      if (option != nullptr && takes_value(*option) && apart) waiting = option;
    } else {
      const auto below = shown_commands(*command);
      const auto found = std::ranges::find(below, word, &CLI::App::get_name);
      if (found != below.end()) {
        command = *found;
        arguments.clear();
      } else {
        arguments.push_back(word);
        if (tree.takes_command(*command) && command->get_name() != "exec") program = 1;
      }
    }
  }
  Candidates found;
  if (program && tree.takes_command(*command)) {
    found.files = true;
    if (*program == 0) found.words = find_names("PROGRAM", command->get_name());
    keep_beginning(found, current);
    return found;
  }
  if (waiting != nullptr) {
    found = values_of(*waiting, *command, find_names);
    keep_beginning(found, current);
  } else if (current.starts_with("--") && current.find('=') != std::string::npos) {
    const std::string before = current.substr(0, current.find('=') + 1);
    if (const CLI::Option* option = find_option(*command, current)) {
      found = values_of(*option, *command, find_names);
    }
    for (Candidate& candidate : found.words) candidate.word.insert(0, before);
    keep_beginning(found, current);
  } else if (current.starts_with("-") && !program) {
    add_options(tree, *command, found.words);
    keep_beginning(found, current);
  } else {
    const auto below = shown_commands(*command);
    for (const CLI::App* one : below) {
      found.words.push_back({one->get_name(), one->get_description()});
    }
    if (below.empty()) {
      found = arguments_of(tree, *command, arguments, find_names);
    }
    keep_beginning(found, current);
  }
  return found;
}

std::string to_text(const Candidates& candidates) {
  std::string text;
  for (const Candidate& candidate : candidates.words) {
    text += escape_for_terminal(candidate.word);
    if (!candidate.text.empty()) text += "\t" + escape_for_terminal(candidate.text);
    text += "\n";
  }
  if (candidates.files) text += ":files\n";
  return text;
}

Result<std::string> completion_script(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return err(ErrorCode::kInvalidArgument, "\"{}\" is not bash, zsh or fish",
             escape_for_terminal(shell.substr(0, 40)));
}

}  // namespace divvy::cli
