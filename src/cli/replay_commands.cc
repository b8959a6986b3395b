// Commands that replay and measure, without a daemon: sim, bench.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/bench_command.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/kube_forecast.h"
#include "cli/session.h"
#include "cli/sim_command.h"

namespace divvy::cli {
namespace {

SimScreen screen_of(const Session& session) {
  return {.out = session.out,
          .err = session.err,
          .style = session.style,
          .show_progress = session.terminal.errors_are_terminal};
}

}  // namespace

void add_replay_commands(CommandTree& tree) {
  auto sim_arguments = std::make_shared<SimArguments>();
  CLI::App* sim = add_sim(tree.root(), *sim_arguments);
  sim->group(heading::kOther);
  for (const CLI::App* command : shown_commands(*sim)) {
    tree.set_action(*command, [sim_arguments, sim](const Session& session) -> Result<int> {
      const SimClusterOptions& cluster = sim_arguments->cluster;
      if (sim->got_subcommand("cluster") && cluster.from_kube) {
        if (cluster.scenario.empty()) return forecast_cluster(session, cluster);
        return err(ErrorCode::kInvalidArgument, "--from-kube takes the place of a scenario");
      }
      return run_sim(*sim, *sim_arguments, screen_of(session));
    });
  }
  auto bench_arguments = std::make_shared<BenchArguments>();
  CLI::App* bench = add_bench(tree.root(), *bench_arguments);
  bench->group(heading::kOther);
  for (const CLI::App* command : shown_commands(*bench)) {
    tree.set_action(*command, [bench_arguments, bench](const Session& session) {
      return run_bench(*bench, *bench_arguments, screen_of(session));
    });
  }
}

}  // namespace divvy::cli
