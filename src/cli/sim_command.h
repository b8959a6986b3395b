// The commands under `divvy sim`, which replay traces through the placement engine: their options,
// and which of them was asked for. What each one does is in a file of its own (sim_pack.h,
// sim_jobs.h, sim_cluster.h). Runs on the main thread.
#pragma once

#include <iosfwd>
#include <string>

#include "base/result.h"
#include "cli/sim_cluster.h"
#include "cli/sim_jobs.h"
#include "cli/sim_pack.h"
#include "cli/style.h"

namespace CLI {
class App;
}

namespace divvy::cli {

struct SimArguments {
  SimPackOptions pack;
  SimJobsOptions jobs;
  SimClusterOptions cluster;
};

// Adds `sim` with everything below it to the command line. `arguments` outlives it.
CLI::App* add_sim(CLI::App& app, SimArguments& arguments);

// What the commands write to.
struct SimScreen {
  std::ostream& out;
  std::ostream& err;
  const Style& style;
  bool show_progress = false;
};

// Runs the command below `sim` that was given. A wrong option is an error for the usage message;
// everything else has been said on `err` and is an exit status.
[[nodiscard]] Result<int> run_sim(const CLI::App& sim, const SimArguments& arguments,
                                  const SimScreen& screen);

}  // namespace divvy::cli
