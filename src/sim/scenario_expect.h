// Reads what comes after "expect" in a scenario. Only scenario.cc includes it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "sim/scenario.h"
#include "sim/scenario_line.h"

namespace divvy::sim {

// Names that have to be known at this line; each takes the next word.
struct ScenarioNames {
  std::function<Result<std::string>(ScenarioLine&)> node;
  std::function<Result<std::string>(ScenarioLine&)> job;
  std::function<Result<std::string>(ScenarioLine&)> queue;
  std::function<bool(std::string_view)> is_job;
};

[[nodiscard]] Result<Expect> read_expect(ScenarioLine& line, const ScenarioNames& names);

}  // namespace divvy::sim
