// Commands about this machine and its GPUs: gpus, gpu, doctor, events, ledger, cdi.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/doctor_input.h"
#include "cli/events_command.h"
#include "cli/exit_codes.h"
#include "cli/gpu_command.h"
#include "cli/help_texts.h"
#include "cli/job_events.h"
#include "cli/job_reference.h"
#include "cli/on_this_machine.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kGpuFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                        OutputFormat::kJson, OutputFormat::kYaml,
                                        OutputFormat::kName};
constexpr OutputFormat kTopologyFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                             OutputFormat::kJson, OutputFormat::kYaml};
constexpr OutputFormat kEventFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                          OutputFormat::kJson, OutputFormat::kYaml,
                                          OutputFormat::kName};
constexpr OutputFormat kDoctorFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                           OutputFormat::kYaml};

int print(const Session& session, const Result<std::string>& text) {
  if (text) return session.print(*text);
  session.say(text.error().message);
  return kExitError;
}

struct GpusArguments {
  std::string format = "table";
  bool topology = false;
};

bool has_simulated_gpus(const Daemon& daemon) {
  const auto reply = daemon.ask("GET", "/v1/node");
  const auto node = reply && reply->ok() ? Answer::parse(reply->body) : Result<Answer>(Answer());
  return node && (*node)["simulated"].flag();
}

void add_gpus(CommandTree& tree) {
  auto arguments = std::make_shared<GpusArguments>();
  CLI::App* gpus = tree.add(
      heading::kGpus, "gpus", "List the GPUs of this machine and how they are doing", kGpusFooter,
      [arguments](const Session& session) -> Result<int> {
        DIVVY_TRY(format, parse_output_format(arguments->format,
                                              arguments->topology
                                                  ? std::span<const OutputFormat>(kTopologyFormats)
                                                  : std::span<const OutputFormat>(kGpuFormats)));
        DIVVY_TRY(daemon, session.daemon());
        if (daemon.is_cluster() && !arguments->topology) {
          return show_gpu_health(daemon, format, session.style, session.out, session.err);
        }
        DIVVY_RETURN_IF_ERROR(check_on_this_machine(session, "divvy gpu list"));
        const Inventory inventory = judged_by(daemon, session.services.inventory);
        const auto listed = list_gpus(
            inventory, {.format = format, .topology = arguments->topology}, session.style);
        // Simulated ones of root are everybody's, but nothing in the environment says where they
        // are.
        const bool no_driver = !listed && listed.error().code == ErrorCode::kNotFound;
        if (no_driver && !arguments->topology && has_simulated_gpus(daemon)) {
          return show_gpu_health(daemon, format, session.style, session.out, session.err);
        }
        return print(session, listed);
      });
  add_output(*gpus, arguments->format, kGpuFormats);
  gpus->add_flag("--topology", arguments->topology,
                 "Show how the GPUs are connected, like nvidia-smi topo -m");
}

void add_gpu_group(CommandTree& tree) {
  auto arguments = std::make_shared<GpuArguments>();
  CLI::App* gpu = add_gpu(tree.root(), *arguments);
  gpu->group(heading::kGpus);
  for (const CLI::App* command : shown_commands(*gpu)) {
    tree.set_action(*command, [arguments, gpu](const Session& session) -> Result<int> {
      const auto daemon = session.daemon();
      if (!daemon) return session.fail(daemon.error());
      return run_gpu(*gpu, *arguments, *daemon, session.style, session.out, session.err);
    });
  }
}

struct EventsArguments {
  std::string format = "table";
  bool follow = false;
  std::uint64_t since = 0;
  bool jobs = false;
  std::string job;
};

void add_events(CommandTree& tree) {
  auto arguments = std::make_shared<EventsArguments>();
  CLI::App* events = tree.add(
      heading::kGpus, "events", "What happened to the GPUs, to who is on them, and to jobs",
      kEventsFooter, [arguments](const Session& session) -> Result<int> {
        DIVVY_TRY(format, parse_output_format(arguments->format, kEventFormats));
        const auto daemon = session.daemon();
        if (!daemon) return session.fail(daemon.error());
        if (arguments->jobs || !arguments->job.empty()) {
          JobEventsOptions options{
              .follow = arguments->follow, .after = arguments->since, .job = {}, .format = format};
          if (!arguments->job.empty()) {
            const auto job = find_job(session, arguments->job, JobMeant::kNewest);
            if (!job) return job.error();
            options.job = *job;
          }
          return show_job_events(session, *daemon, options);
        }
        return show_events(
            *daemon, {.format = format, .follow = arguments->follow, .since = arguments->since},
            session.style, session.out, session.err);
      });
  events->add_flag("-f,--follow", arguments->follow, "Go on as more happens");
  events->add_option("--since", arguments->since, "Only those after this number")
      ->type_name("NUMBER");
  events->add_flag("--jobs", arguments->jobs, "What happened to jobs, instead of GPUs");
  events->add_option("--job", arguments->job, "What happened to this job")->type_name("JOB");
  add_output(*events, arguments->format, kEventFormats);
}

void add_cdi(CommandTree& tree) {
  CLI::App* cdi =
      tree.add(heading::kGpus, "cdi", "Show what container runtimes are told of the GPUs", "");
  tree.add_below(*cdi, "show", "Print the CDI file of the whole GPUs", kCdiShowFooter,
                 [](const Session& session) -> Result<int> {
                   DIVVY_RETURN_IF_ERROR(check_on_this_machine(session));
                   return print(session, session.services.cdi_file());
                 });
  tree.add_below(*cdi, "clean", "Remove all CDI files that Divvy has written", kCdiCleanFooter,
                 [](const Session& session) -> Result<int> {
                   DIVVY_RETURN_IF_ERROR(check_on_this_machine(session));
                   if (session.local().running()) {
                     session.say("divvyd runs and would write them anew; end it first");
                     return kExitError;
                   }
                   const Status cleaned = session.services.clean_cdi();
                   return cleaned ? kExitOk : print(session, err(cleaned.error()));
                 });
}

}  // namespace

void add_machine_commands(CommandTree& tree) {
  add_gpus(tree);
  add_gpu_group(tree);
  add_nodes_command(tree);
  add_events(tree);

  auto doctor_format = std::make_shared<std::string>("table");
  CLI::App* doctor =
      tree.add(heading::kGpus, "doctor", "Say what is wrong on this machine and how to mend it",
               kDoctorFooter, [doctor_format](const Session& session) -> Result<int> {
                 DIVVY_TRY(format, parse_output_format(*doctor_format, kDoctorFormats));
                 DIVVY_RETURN_IF_ERROR(check_on_this_machine(session));
                 DIVVY_TRY(daemon, session.daemon());
                 Services services = session.services;
                 services.daemon = daemon.options();
                 return run_doctor(this_machine(services), format, session.style, session.out);
               });
  add_output(*doctor, *doctor_format, kDoctorFormats);

  auto ledger_arguments = std::make_shared<LedgerArguments>();
  CLI::App* ledger = add_ledger(tree.root(), *ledger_arguments);
  ledger->group(heading::kGpus);
  for (const CLI::App* command : shown_commands(*ledger)) {
    tree.set_action(*command, [ledger_arguments, ledger](const Session& session) -> Result<int> {
      DIVVY_RETURN_IF_ERROR(check_on_this_machine(session));
      return run_ledger(*ledger, *ledger_arguments, session.services.ledger, session.style,
                        session.out, session.err);
    });
  }
  add_cdi(tree);
}

}  // namespace divvy::cli
