// -l KEY=VALUE: jobs by their labels. Pure, callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/answer.h"

namespace CLI {
class App;
}

namespace divvy::cli {

class LabelSelector {
 public:
  // "stage=train" or "stage", which is there with any value. All of them have to fit.
  [[nodiscard]] static Result<LabelSelector> parse(const std::vector<std::string>& typed);

  [[nodiscard]] bool empty() const { return wanted_.empty(); }
  // Of a job whose inside the caller may not see nothing fits.
  [[nodiscard]] bool matches(const Answer& job) const;

 private:
  struct Wanted {
    std::string name;
    std::optional<std::string> value;
  };
  std::vector<Wanted> wanted_;
};

void add_label_selector(CLI::App& command, std::vector<std::string>& typed);

}  // namespace divvy::cli
