#include "cli/label_selector.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.h"
#include "cli/command_tree.h"

namespace divvy::cli {

Result<LabelSelector> LabelSelector::parse(const std::vector<std::string>& typed) {
  LabelSelector selector;
  for (const std::string& text : typed) {
    const std::size_t equals = text.find('=');
    if (text.empty() || equals == 0) {
      return err(ErrorCode::kInvalidArgument, "--selector: \"{}\" is not NAME=VALUE or NAME",
                 escape_for_terminal(text.substr(0, 60)));
    }
    Wanted& wanted = selector.wanted_.emplace_back(Wanted{text.substr(0, equals), {}});
    if (equals != std::string::npos) wanted.value = text.substr(equals + 1);
  }
  return selector;
}

bool LabelSelector::matches(const Answer& job) const {
  const Answer labels = job["spec"]["labels"];
  return std::ranges::all_of(wanted_, [&](const Wanted& wanted) {
    const Answer label = labels[wanted.name];
    return !label.empty() && (!wanted.value || label.raw() == *wanted.value);
  });
}

void add_label_selector(CLI::App& command, std::vector<std::string>& typed) {
  add_list(command, "-l,--selector", typed, "Only jobs with this label; several: with all of them",
           "NAME=VALUE");
}

}  // namespace divvy::cli
