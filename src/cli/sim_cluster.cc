#include "cli/sim_cluster.h"

#include <ostream>

#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/sim_command.h"
#include "place/policy.h"
#include "sim/scenario_report.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                     OutputFormat::kYaml};

}  // namespace

Result<int> sim_cluster(const SimClusterOptions& options, const SimScreen& screen) {
  DIVVY_TRY(format, parse_output_format(options.format, kFormats));
  if (options.scenario.empty()) {
    return err(
        ErrorCode::kInvalidArgument,
        "name a scenario (docs/scenarios.md), or --from-kube for the cluster of the context");
  }
  if (options.add_nodes > 0 || !options.without.empty() || options.no_preemption) {
    return err(ErrorCode::kInvalidArgument,
               "--add-nodes, --without and --no-preemption go with --from-kube");
  }
  sim::ClusterOptions wanted;
  wanted.scenario = options.scenario;
  wanted.json = format != OutputFormat::kTable;
  if (!options.policy.empty()) {
    DIVVY_RETURN_IF_ERROR(place::make_policy(options.policy));
    wanted.policy = options.policy;
  }
  const auto answer = sim::run_cluster(wanted);
  if (!answer) {
    screen.err << "divvy: " << answer.error().message << "\n";
    return kExitUsage;
  }
  screen.out << (format == OutputFormat::kYaml ? to_yaml(answer->text) : answer->text)
             << std::flush;
  if (!screen.out) {
    screen.err << "divvy: standard output could not be written\n";
    return kExitError;
  }
  return answer->passed ? kExitOk : kExitError;
}

}  // namespace divvy::cli
