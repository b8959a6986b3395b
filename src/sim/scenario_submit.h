// Reads what comes after "submit" in a scenario. Only scenario.cc includes it.
#pragma once

#include <functional>
#include <string>

#include "sim/scenario.h"
#include "sim/scenario_line.h"

namespace divvy::sim {

// Names that have to be known at this line.
struct SubmitNames {
  std::function<Result<std::string>(const ScenarioLine&, const std::string&)> queue;
  std::function<Result<model::JobId>(const ScenarioLine&, const std::string&)> job;
};

// A job that could be submitted: it passed model::check() and place::check().
[[nodiscard]] Result<Submit> read_submit(ScenarioLine& line, const std::string& name,
                                         const SubmitNames& names);

}  // namespace divvy::sim
