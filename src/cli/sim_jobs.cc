#include "cli/sim_jobs.h"

#include <ostream>
#include <utility>

#include "base/text.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/sim_command.h"
#include "place/job_order.h"
#include "sim/job_report.h"
#include "sim/job_sharing.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                     OutputFormat::kYaml};
constexpr std::size_t kProgressSteps = 1000;

}  // namespace

Result<int> sim_jobs(const SimJobsOptions& options, const SimScreen& screen) {
  DIVVY_TRY(format, parse_output_format(options.format, kFormats));
  DIVVY_TRY(restart_cost, sim::parse_restart_cost(options.restart_cost));
  DIVVY_TRY(share, sim::parse_share_model(options.share));
  if (share != sim::ShareModel::kNone && restart_cost != sim::RestartCost::kReal) {
    return err(ErrorCode::kInvalidArgument,
               "jobs that share GPUs stay where they are; add --restart-cost real");
  }
  sim::JobsOptions wanted;
  wanted.trace = options.trace;
  wanted.cluster = {.nodes = options.nodes, .gpus_per_node = options.gpus_per_node};
  wanted.restart_cost = restart_cost;
  wanted.share = share;
  wanted.json = format != OutputFormat::kTable;
  DIVVY_RETURN_IF_ERROR(sim::check_shape(wanted.cluster));
  for (const std::string& typed : options.policies) {
    for (const std::string_view name : split(typed, ',')) wanted.policies.emplace_back(trim(name));
  }
  if (wanted.policies.empty()) wanted.policies.emplace_back("divvy");
  for (const std::string& policy : wanted.policies) {
    DIVVY_RETURN_IF_ERROR(place::make_job_order(policy, wanted.cluster.gpus()));
  }

  const auto report = [&] {
    Progress progress(screen.err, screen.show_progress, screen.style);
    wanted.progress = [&](double part) {
      progress.show(static_cast<std::size_t>(part * kProgressSteps), kProgressSteps, "jobs");
    };
    return sim::run_jobs(wanted);
  }();
  if (!report) {
    screen.err << "divvy: " << report.error().message << "\n";
    return kExitUsage;
  }
  screen.out << (format == OutputFormat::kYaml ? to_yaml(*report) : *report) << std::flush;
  if (!screen.out) {
    screen.err << "divvy: standard output could not be written\n";
    return kExitError;
  }
  return kExitOk;
}

}  // namespace divvy::cli
