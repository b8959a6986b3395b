// Reads what comes after "queue" and "user" in a scenario. Only scenario.cc includes it.
#pragma once

#include "jobs/settings.h"
#include "sim/scenario_line.h"

namespace divvy::sim {

// What is read is only well formed: whether it makes sense is for jobs::check() to say.
[[nodiscard]] Result<jobs::QueueSettings> read_queue(ScenarioLine& line);
[[nodiscard]] Result<jobs::UserSettings> read_user(ScenarioLine& line);

}  // namespace divvy::sim
