// What a shell offers while a command line of `divvy` is typed. The scripts for the shells only
// ask; everything is found in the tree of commands, and names come from the daemon. Runs on the
// main thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

class CommandTree;

struct Candidate {
  std::string word;
  std::string text;  // What it is, for shells that show it; may be empty
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct Candidates {
  std::vector<Candidate> words;
  bool files = false;  // Also names of files
};

// What there is of a kind: "JOB", "QUEUE", "USER", "GPU", "MODEL", "TENANT", "SLICE", "TOKEN",
// "CONTEXT" or "PROGRAM". `command` is the one that asks.
using FindNames =
    std::function<std::vector<Candidate>(const std::string& kind, const std::string& command)>;

// `words` are those after "divvy"; the last one is being typed and may be empty.
[[nodiscard]] Candidates complete(const CommandTree& tree, const std::vector<std::string>& words,
                                  const FindNames& find_names);

// One to a line, with a tab before its text; ":files" at the end where names of files are wanted.
[[nodiscard]] std::string to_text(const Candidates& candidates);

// "bash", "zsh" or "fish".
[[nodiscard]] Result<std::string> completion_script(std::string_view shell);

}  // namespace divvy::cli
