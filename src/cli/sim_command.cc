#include "cli/sim_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/help_texts.h"
#include "place/job_order.h"
#include "place/policy.h"

namespace divvy::cli {
namespace {

// "  fgd         least growth of fragmentation" for each, under "Policies:".
template <typename List>
std::string policies_text(const List& policies, auto about) {
  std::string text = "Policies:\n";
  for (const auto& policy : policies)
    text += fmt::format("  {:<15}{}\n", policy.name, about(policy));
  return text;
}

// Without its name in the help text.
CLI::Validator not_negative() { return CLI::Validator(CLI::NonNegativeNumber).description(""); }

CLI::Option* add_list(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                      const std::string& text) {
  return app.add_option(name, values, text)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_pack(CLI::App& sim, SimPackOptions& options) {
  CLI::App* pack =
      sim.add_subcommand("pack", "How much of the GPUs can a policy hand out? Pods come and stay");
  pack->footer(policies_text(place::policies(), [](const auto& info) { return info.summary; }) +
               kSimPackFooter);
  pack->add_option("--nodes", options.nodes, "The cluster")->type_name("CSV")->required();
  pack->add_option("--pods", options.pods, "Who may come")->type_name("CSV")->required();
  add_list(*pack, "--sequence", options.sequences,
           "In which order they come, a pod on each line; may be repeated")
      ->type_name("FILE")
      ->required();
  add_list(*pack, "--policy", options.policies,
           "Who decides: NAME, or NAME,NAME,... (default divvy); may be repeated")
      ->type_name("POLICY");
  pack->add_option("-o,--output", options.format, "Output format: table, json or yaml")
      ->type_name("FORMAT");
  pack->add_option("--levels", options.levels,
                   "Rows of the table: all, or some like 50,80,90-130 (default all)")
      ->type_name("LEVELS");
  pack->add_option("--plot", options.plot, "Draw the curves into this .svg")->type_name("FILE");
  pack->add_option(
          "--seed", options.seed,
          fmt::format("Draws the order of the nodes of the first sequence, the next number "
                      "that of the next (default {})",
                      kDefaultPackSeed))
      ->check(not_negative())
      ->type_name("NUMBER");
  options.seed = kDefaultPackSeed;
}

void add_jobs(CLI::App& sim, SimJobsOptions& options) {
  CLI::App* jobs = sim.add_subcommand("jobs", "How long do jobs take? They come, wait, run and go");
  jobs->footer(policies_text(place::job_orders(), [](const auto& info) { return info.about; }) +
               kSimJobsFooter);
  jobs->add_option("--trace", options.trace,
                   "The jobs: num_gpu, submit_time, iterations, model_name, iteration_time")
      ->type_name("CSV")
      ->required();
  add_list(*jobs, "--policy", options.policies,
           "Who is first: NAME, or several as NAME,NAME (default divvy); may be repeated")
      ->type_name("POLICY");
  jobs->add_option("--nodes", options.nodes, "How many nodes there are (default 8)")
      ->check(not_negative())
      ->type_name("NUMBER");
  jobs->add_option("--gpus-per-node", options.gpus_per_node, "GPUs of each node (default 8)")
      ->check(not_negative())
      ->type_name("NUMBER");
  jobs->add_option("--restart-cost", options.restart_cost,
                   "When a restart costs: protocol or real (default protocol)")
      ->type_name("WHEN");
  jobs->add_option("--share", options.share,
                   "May jobs share GPUs? none or resources (default none)")
      ->type_name("MODEL");
  jobs->add_option("-o,--output", options.format, "Output format: table, json or yaml")
      ->type_name("FORMAT");
}

void add_cluster(CLI::App& sim, SimClusterOptions& options) {
  CLI::App* cluster = sim.add_subcommand(
      "cluster", "Play a scenario: a queue, gangs and faults. Did it come as expected?");
  cluster->footer(kSimClusterFooter);
  cluster->add_option("scenario", options.scenario, "The scenario (docs/scenarios.md)")
      ->type_name("FILE");
  cluster
      ->add_option("--policy", options.policy,
                   "Who decides, instead of the one that the scenario names")
      ->type_name("POLICY");
  cluster->add_flag("--from-kube", options.from_kube,
                    "No scenario, but the nodes and the line of the context's cluster as they are");
  cluster->add_option("--add-nodes", options.add_nodes, "With --from-kube: so many nodes more")
      ->type_name("NUMBER");
  cluster->add_option("--gpus", options.gpus, "With --add-nodes: GPUs of each")
      ->type_name("NUMBER");
  cluster->add_option("--like", options.like, "With --add-nodes: like this one (the first)")
      ->type_name("NODE");
  add_list(*cluster, "--without", options.without,
           "With --from-kube: without this node, or GPU (node-a/3); may be repeated")
      ->type_name("NODE");
  cluster->add_flag("--no-preemption", options.no_preemption,
                    "With --from-kube: nobody makes way for anybody");
  cluster->add_option("-o,--output", options.format, "Output format: table, json or yaml")
      ->type_name("FORMAT");
}

}  // namespace

CLI::App* add_sim(CLI::App& app, SimArguments& arguments) {
  CLI::App* sim = app.add_subcommand("sim", "Replay a trace: what would a policy make of it?");
  sim->group("Commands");
  sim->footer(kSimFooter);
  add_pack(*sim, arguments.pack);
  add_jobs(*sim, arguments.jobs);
  add_cluster(*sim, arguments.cluster);
  for (CLI::App* command : sim->get_subcommands(nullptr)) command->group("Commands");
  return sim;
}

Result<int> run_sim(const CLI::App& sim, const SimArguments& arguments, const SimScreen& screen) {
  if (sim.got_subcommand("pack")) return sim_pack(arguments.pack, screen);
  if (sim.got_subcommand("jobs")) return sim_jobs(arguments.jobs, screen);
  if (sim.got_subcommand("cluster")) return sim_cluster(arguments.cluster, screen);
  return err(ErrorCode::kInvalidArgument,
             "no command was given: divvy sim pack, divvy sim jobs or divvy sim cluster");
}

}  // namespace divvy::cli
