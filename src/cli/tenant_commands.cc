// Commands about slices that are held now: run, set, ps, top, slice.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/help_texts.h"
#include "cli/on_this_machine.h"
#include "cli/run_command.h"
#include "cli/session.h"
#include "cli/slice_command.h"
#include "cli/tenant_list.h"
#include "cli/top.h"
#include "cli/top_tables_command.h"
#include "model/seconds.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kTenantFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                           OutputFormat::kJson, OutputFormat::kYaml,
                                           OutputFormat::kName};
constexpr OutputFormat kTopFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                        OutputFormat::kYaml};

void add_run(CommandTree& tree) {
  auto options = std::make_shared<RunOptions>();
  auto timeout = std::make_shared<std::string>();
  CLI::App* run =
      tree.add(heading::kGpus, "run", "Run a command on a slice of a GPU", kRunFooter,
               [options, timeout](const Session& session) -> Result<int> {
                 if (options->command.empty()) {
                   return err(ErrorCode::kInvalidArgument,
                              "no command was given: divvy run --gpu 0.3 -- python train.py");
                 }
                 options->wait = options->wait || !options->queue.empty();
                 if (!timeout->empty()) {
                   DIVVY_TRY(time, with_context(model::parse_seconds(*timeout), "--timeout"));
                   options->timeout_seconds = static_cast<std::uint32_t>(time.count());
                   if (!options->wait) {
                     return err(ErrorCode::kInvalidArgument, "--timeout needs --wait");
                   }
                 }
                 DIVVY_RETURN_IF_ERROR(check_on_this_machine(session, "divvy submit"));
                 const auto daemon = session.daemon();
                 if (!daemon) return session.fail(daemon.error());
                 return run_command(*daemon, *options, session.services.libraries, session.err);
               });
  tree.takes_command(*run, options->command);
  run->add_option("--gpu", options->gpu,
                  "How much of a GPU, or how many: 0.3, 300m, 1, 2.5 (default 1)")
      ->type_name("SHARE");
  run->add_option("--gpu-mem", options->memory,
                  "Memory on each GPU: 10GiB; without --gpu also says how much of the GPU")
      ->type_name("SIZE");
  run->add_flag("--cap", options->cap, "Never take more than the share, even of an idle GPU");
  run->add_option("--class", options->tenant_class, "latency goes before batch (default batch)")
      ->type_name("CLASS");
  run->add_option("--mode", options->mode,
                  "timeslice: take turns on the GPU; mps: run side by side (default: sharing.mode "
                  "of divvyd, which is timeslice unless set)")
      ->type_name("MODE");
  add_list(*run, "--device", options->devices, "Only this GPU: index, UUID or the beginning of one",
           "GPU")
      ->delimiter(',');
  add_list(*run, "--model", options->models, "Only GPUs of this model", "MODEL");
  run->add_option("--name", options->name, "Name of the tenant (default: from the command)")
      ->type_name("NAME");
  run->add_flag("--wait", options->wait, "Wait in line until it fits");
  run->add_option("--queue", options->queue,
                  "Count in this queue, and wait there until it is its turn (default: default)")
      ->type_name("QUEUE");
  run->add_option("--timeout", *timeout, "With --wait: at most so long: 90s, 30m")
      ->type_name("TIME");
  run->add_flag("-q,--quiet", options->quiet, "Do not tell what was granted");
}

void add_set(CommandTree& tree) {
  struct Arguments {
    SetOptions options;
    bool cap = false;
    bool no_cap = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* set = tree.add(
      heading::kGpus, "set", "Change a tenant's slice while it runs", kSetFooter,
      [arguments](const Session& session) -> Result<int> {
        SetOptions& options = arguments->options;
        if (arguments->cap && arguments->no_cap) {
          return err(ErrorCode::kInvalidArgument, "--cap and --no-cap exclude each other");
        }
        if (arguments->cap || arguments->no_cap) options.cap = arguments->cap;
        if (!options.gpu && !options.memory && !options.cap && !options.tenant_class) {
          return err(ErrorCode::kInvalidArgument,
                     "nothing to change was named: --gpu, --gpu-mem, --cap, --no-cap or --class");
        }
        const auto daemon = session.daemon();
        if (!daemon) return session.fail(daemon.error());
        return change_tenant(*daemon, options, session.style, session.out, session.err);
      });
  SetOptions& options = arguments->options;
  set->add_option("TENANT", options.tenant, "Its number or name, as `divvy ps` shows it")
      ->required();
  set->add_option("--gpu", options.gpu, "The new share")->type_name("SHARE");
  set->add_option("--gpu-mem", options.memory, "The new limit of its memory")->type_name("SIZE");
  set->add_flag("--cap", arguments->cap, "The share is also the most it gets");
  set->add_flag("--no-cap", arguments->no_cap, "It may take what others leave idle");
  set->add_option("--class", options.tenant_class, "latency or batch")->type_name("CLASS");
}

struct PsArguments {
  std::string format = "table";
  bool watch = false;
};

void add_ps(CommandTree& tree) {
  auto arguments = std::make_shared<PsArguments>();
  CLI::App* ps =
      tree.add(heading::kGpus, "ps", "List who holds which part of which GPU and what they use",
               kPsFooter, [arguments](const Session& session) -> Result<int> {
                 DIVVY_TRY(format, parse_output_format(arguments->format, kTenantFormats));
                 const auto daemon = session.daemon();
                 if (!daemon) return session.fail(daemon.error());
                 return list_tenants(*daemon, {.format = format, .watch = arguments->watch},
                                     session.style, session.out, session.err);
               });
  add_output(*ps, arguments->format, kTenantFormats);
  ps->add_flag("-w,--watch", arguments->watch, "Show it again every second");
}

struct TopArguments {
  std::string format = "table";
  bool once = false;
};

void add_top(CommandTree& tree) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* top =
      tree.add(heading::kGpus, "top", "Watch GPUs and tenants live", kTopFooter,
               [arguments](const Session& session) -> Result<int> {
                 DIVVY_TRY(format, parse_output_format(arguments->format, kTopFormats));
                 const auto daemon = session.daemon();
                 if (!daemon) return session.fail(daemon.error());
                 return watch_tenants(*daemon, {.format = format, .once = arguments->once},
                                      session.style, session.out, session.err);
               });
  top->add_option("-o,--output", arguments->format, "Print once: table, json or yaml")
      ->type_name("FORMAT");
  top->add_flag("--once", arguments->once, "Print once and end");
  add_top_tables(tree, *top);
}

}  // namespace

void add_tenant_commands(CommandTree& tree) {
  add_run(tree);
  add_set(tree);
  add_ps(tree);
  add_top(tree);
  auto arguments = std::make_shared<SliceArguments>();
  CLI::App* slice = add_slice(tree.root(), *arguments);
  slice->group(heading::kGpus);
  for (const CLI::App* command : shown_commands(*slice)) {
    tree.set_action(*command, [arguments, slice](const Session& session) -> Result<int> {
      const auto daemon = session.daemon();
      if (!daemon) return session.fail(daemon.error());
      return run_slice(*slice, *arguments, *daemon,
                       {.out = session.out, .err = session.err, .style = session.style});
    });
  }
}

}  // namespace divvy::cli
