#include "cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <span>

#include "base/text.h"
#include "cli/bench_command.h"
#include "cli/doctor_patient.h"
#include "cli/events_command.h"
#include "cli/gpu_command.h"
#include "cli/help_texts.h"
#include "cli/sim_command.h"
#include "cli/slice_command.h"
#include "cli/tenant_list.h"
#include "cli/top.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kGpuFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                        OutputFormat::kJson, OutputFormat::kYaml,
                                        OutputFormat::kName};
constexpr OutputFormat kTopologyFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                             OutputFormat::kJson, OutputFormat::kYaml};
constexpr OutputFormat kTenantFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                           OutputFormat::kJson, OutputFormat::kYaml};
constexpr OutputFormat kEventFormats[] = {OutputFormat::kTable, OutputFormat::kJson};
constexpr OutputFormat kVersionFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                            OutputFormat::kYaml};

// CLI11's help with a little more air in it.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(24);
    label("OPTIONS", "options");
    label("SUBCOMMAND", "COMMAND");
  }
  std::string make_description(const CLI::App* app) const override {
    return CLI::Formatter::make_description(app) + "\n";
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    // The command that is run is no argument that CLI11 knows.
    if (app->get_name() == "run") return "Usage: divvy run [options] -- COMMAND [ARGUMENT...]\n";
    return CLI::Formatter::make_usage(app, std::move(name));
  }
};

struct GpusArguments {
  std::string format = "table";
  bool topology = false;
};

struct PsArguments {
  std::string format = "table";
  bool watch = false;
};

struct TopArguments {
  std::string format = "table";
  bool once = false;
};

struct EventsArguments {
  std::string format = "table";
  bool follow = false;
  std::uint64_t since = 0;
};

struct CommandLine {
  CLI::App app{"Divvy shares GPUs: it cuts them into slices and keeps everybody inside theirs."};
  CLI::App* gpus = nullptr;
  CLI::App* gpu = nullptr;
  CLI::App* events = nullptr;
  CLI::App* run = nullptr;
  CLI::App* set = nullptr;
  CLI::App* ps = nullptr;
  CLI::App* top = nullptr;
  CLI::App* doctor = nullptr;
  CLI::App* ledger = nullptr;
  CLI::App* slice = nullptr;
  CLI::App* cdi = nullptr;
  CLI::App* sim = nullptr;
  CLI::App* bench = nullptr;
  CLI::App* version = nullptr;
  std::string color = "auto";
  bool wants_version = false;
  GpusArguments gpus_arguments;
  GpuArguments gpu_arguments;
  EventsArguments events_arguments;
  RunOptions run_options;
  SetOptions set_options;
  bool set_cap = false;
  bool set_no_cap = false;
  PsArguments ps_arguments;
  TopArguments top_arguments;
  LedgerArguments ledger_arguments;
  SliceArguments slice_arguments;
  SimArguments sim_arguments;
  BenchArguments bench_arguments;
  std::string doctor_format = "table";
  std::string version_format = "table";

  CommandLine() {
    app.name("divvy");
    app.footer(kMainFooter);
    app.set_help_flag("-h,--help", "Print this text");
    app.add_flag("--version", wants_version, "Print the version");
    app.add_option("--color", color, "When to use colours: auto, always or never")
        ->type_name("WHEN");
    // Options of `divvy` are also understood after the command.
    app.fallthrough();
    app.formatter(std::make_shared<HelpFormatter>());

    gpus = app.add_subcommand("gpus", "List the GPUs of this machine and how they are doing");
    gpus->group("Commands");
    gpus->footer(kGpusFooter);
    gpus->add_option("-o,--output", gpus_arguments.format,
                     "Output format: table, wide, json, yaml or name")
        ->type_name("FORMAT");
    gpus->add_flag("--topology", gpus_arguments.topology,
                   "Show how the GPUs are connected, like nvidia-smi topo -m");

    add_run();
    add_set();
    ps = app.add_subcommand("ps", "List who holds which part of which GPU and what they use");
    ps->group("Commands");
    ps->footer(kPsFooter);
    ps->add_option("-o,--output", ps_arguments.format, "Output format: table, wide, json or yaml")
        ->type_name("FORMAT");
    ps->add_flag("-w,--watch", ps_arguments.watch, "Show it again every second");

    top = app.add_subcommand("top", "Watch GPUs and tenants live");
    top->group("Commands");
    top->footer(kTopFooter);
    top->add_option("-o,--output", top_arguments.format, "Print once: table, json or yaml")
        ->type_name("FORMAT");
    top->add_flag("--once", top_arguments.once, "Print once and end");

    doctor = app.add_subcommand("doctor", "Say what is wrong on this machine and how to mend it");
    doctor->group("Commands");
    doctor->footer(kDoctorFooter);
    doctor->add_option("-o,--output", doctor_format, "Output format: table, json or yaml")
        ->type_name("FORMAT");

    gpu = add_gpu(app, gpu_arguments);
    events = app.add_subcommand("events", "What happened to the GPUs and who is on them");
    events->group("Commands");
    events->footer(kEventsFooter);
    events->add_flag("-f,--follow", events_arguments.follow, "Go on as more happens");
    events->add_option("--since", events_arguments.since, "Only those after this number")
        ->type_name("NUMBER");
    events->add_option("-o,--output", events_arguments.format, "Output format: table or json")
        ->type_name("FORMAT");

    ledger = add_ledger(app, ledger_arguments);
    slice = add_slice(app, slice_arguments);
    cdi = app.add_subcommand("cdi", "Show what container runtimes are told of the GPUs");
    cdi->group("Commands");
    CLI::App* show = cdi->add_subcommand("show", "Print the CDI file of the whole GPUs");
    show->group("Commands");
    show->footer(kCdiShowFooter);
    cdi->add_subcommand("clean", "Remove all CDI files that Divvy has written")
        ->group("Commands")
        ->footer(kCdiCleanFooter);
    sim = add_sim(app, sim_arguments);
    bench = add_bench(app, bench_arguments);

    version = app.add_subcommand("version", "Print the version of Divvy");
    version->group("Commands");
    version->add_option("-o,--output", version_format, "Output format: table, json or yaml")
        ->type_name("FORMAT");
  }

  void add_run() {
    run = app.add_subcommand("run", "Run a command on a slice of a GPU");
    run->group("Commands");
    run->footer(kRunFooter);
    run->add_option("--gpu", run_options.gpu,
                    "How much of a GPU, or how many: 0.3, 300m, 1, 2.5 (default 1)")
        ->type_name("SHARE");
    run->add_option("--gpu-mem", run_options.memory,
                    "Memory on a part of a GPU: 10GiB (default: the same part of the memory)")
        ->type_name("SIZE");
    run->add_flag("--cap", run_options.cap, "Never take more than the share, even of an idle GPU");
    run->add_option("--class", run_options.tenant_class,
                    "latency goes before batch (default batch)")
        ->type_name("CLASS");
    run->add_option(
           "--mode", run_options.mode,
           "timeslice: take turns on the GPU; mps: run side by side (default: sharing.mode "
           "of divvyd, which is timeslice unless set)")
        ->type_name("MODE");
    run->add_option("--device", run_options.devices,
                    "Only this GPU: index, UUID or the beginning of one; may be repeated")
        ->type_name("GPU")
        ->delimiter(',')
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    run->add_option("--name", run_options.name, "Name of the tenant (default: from the command)")
        ->type_name("NAME");
    run->add_flag("--wait", run_options.wait, "Wait until it fits");
    run->add_option("--timeout", run_options.timeout_seconds,
                    "With --wait: at most so many seconds")
        ->type_name("SECONDS");
    run->add_flag("-q,--quiet", run_options.quiet, "Do not tell what was granted");
  }

  void add_set() {
    set = app.add_subcommand("set", "Change a tenant's slice while it runs");
    set->group("Commands");
    set->footer(kSetFooter);
    set->add_option("TENANT", set_options.tenant, "Its number or name, as `divvy ps` shows it")
        ->required();
    set->add_option("--gpu", set_options.gpu, "The new share")->type_name("SHARE");
    set->add_option("--gpu-mem", set_options.memory, "The new limit of its memory")
        ->type_name("SIZE");
    set->add_flag("--cap", set_cap, "The share is also the most it gets");
    set->add_flag("--no-cap", set_no_cap, "It may take what others leave idle");
    set->add_option("--class", set_options.tenant_class, "latency or batch")->type_name("CLASS");
  }

  std::string help() const {
    const CLI::App& command = chosen();
    if (&command == &app) return app.help();
    const std::string words = path();
    return command.help("divvy" + words.substr(0, words.size() - command.get_name().size() - 1));
  }

  // The innermost command that was named.
  const CLI::App& chosen() const {
    const CLI::App* command = &app;
    while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
    return *command;
  }

  // Its words with a space before each: " sim pack".
  std::string path() const {
    std::string words;
    for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
      command = command->get_subcommands().front();
      words += " " + command->get_name();
    }
    return words;
  }
};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CommandLine& line) {
  std::vector<std::string> names;
  const auto add = [&names](const CLI::App& app) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  };
  add(line.chosen());
  if (&line.chosen() != &line.app) add(line.app);
  return names;
}

// The message for the first word that nobody understood.
std::string unknown_word(const CommandLine& line, const std::string& word) {
  // "--colour=never" is a mistake in the part before the "=".
  const bool is_option = word.starts_with("-");
  const std::string bare = is_option ? word.substr(0, word.find('=')) : word;
  const std::string shown = escape_for_terminal(bare);
  const std::string place = "`divvy" + line.path() + "`";

  std::string text;
  std::vector<std::string> candidates;
  if (is_option) {
    text = fmt::format("{} has no option {}", place, shown);
    candidates = option_names(line);
  } else {
    candidates = command_names(line.chosen());
    text = candidates.empty() ? fmt::format("{} takes no argument \"{}\"", place, shown)
                              : fmt::format("there is no command \"{}\"", shown);
  }
  if (const auto meant = did_you_mean(bare, std::span<const std::string>(candidates))) {
    text += fmt::format("; did you mean {}?", *meant);
  } else if (!is_option && !candidates.empty()) {
    text += fmt::format("; commands are {}", fmt::join(candidates, ", "));
  }
  return text;
}

std::string version_document(const std::string& version) {
  return fmt::format(R"({{"apiVersion":"divvy/v1","kind":"Version","version":"{}"}})", version);
}

class Run {
 public:
  Run(const Services& services, const Terminal& terminal, std::ostream& out, std::ostream& err)
      : services_(services), terminal_(terminal), out_(out), err_(err) {}

  int operator()(std::vector<std::string> arguments) {
    take_command(arguments);
    try {
      // CLI11 takes the words from the back.
      line_.app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      return print(line_.help());
    } catch (const CLI::ExtrasError&) {
      const std::vector<std::string> rest = line_.app.remaining(true);
      return usage(rest.empty() ? "too many arguments" : unknown_word(line_, rest.front()));
    } catch (const CLI::RequiredError& error) {
      const std::string_view what = error.what();
      return usage(fmt::format("{} is missing", what.substr(0, what.find(' '))));
    } catch (const CLI::ConversionError& error) {
      const std::string_view what = error.what();
      return usage(escape_for_terminal(what));
    } catch (const CLI::ArgumentMismatch& error) {
      const std::string_view what = error.what();
      return usage(fmt::format("{} needs a value", what.substr(0, what.find(':'))));
    } catch (const CLI::ParseError& error) {
      return usage(escape_for_terminal(error.what()));
    }
    const auto choice = parse_color_choice(line_.color);
    if (!choice) return usage(choice.error().message);
    style_ = choose_style(terminal_, *choice);

    if (line_.wants_version) return print("divvy " + services_.version + "\n");
    if (line_.gpus->parsed()) return gpus();
    if (line_.run->parsed()) return run();
    if (line_.set->parsed()) return set();
    if (line_.ps->parsed()) return ps();
    if (line_.top->parsed()) return top();
    if (line_.doctor->parsed()) return doctor();
    if (line_.gpu->parsed()) return gpu();
    if (line_.events->parsed()) return events();
    if (line_.ledger->parsed()) return ledger();
    if (line_.slice->parsed()) return slice();
    if (line_.cdi->parsed()) return cdi();
    if (line_.sim->parsed()) return sim();
    if (line_.bench->parsed()) return bench();
    if (line_.version->parsed()) return version();
    return print(line_.help());
  }

 private:
  // The command of `divvy run` begins after "--" or with the first word that is no option, and its
  // words are its own, to the letter.
  void take_command(std::vector<std::string>& arguments) {
    const auto is_run = std::ranges::find(arguments, "run");
    if (is_run == arguments.end()) return;
    for (auto word = is_run + 1; word != arguments.end(); ++word) {
      const bool dashes = *word == "--";
      if (dashes || !word->starts_with("-")) {
        line_.run_options.command.assign(dashes ? word + 1 : word, arguments.end());
        arguments.erase(word, arguments.end());
        return;
      }
      if (takes_value(*word) && word + 1 != arguments.end()) ++word;
    }
  }

  bool takes_value(const std::string& word) const {
    if (word.find('=') != std::string::npos) return false;
    for (const CLI::App* app : std::initializer_list<const CLI::App*>{line_.run, &line_.app}) {
      const CLI::Option* option = app->get_option_no_throw(word);
      if (option != nullptr) return option->get_items_expected_max() > 0;
    }
    return false;
  }

  int run() {
    RunOptions& options = line_.run_options;
    if (options.command.empty()) {
      return usage("no command was given: divvy run --gpu 0.3 -- python train.py");
    }
    if (options.timeout_seconds && !options.wait) return usage("--timeout needs --wait");
    return run_command(Daemon(services_.daemon), options, services_.libraries, err_);
  }

  int set() {
    SetOptions& options = line_.set_options;
    if (line_.set_cap && line_.set_no_cap) return usage("--cap and --no-cap exclude each other");
    if (line_.set_cap || line_.set_no_cap) options.cap = line_.set_cap;
    if (!options.gpu && !options.memory && !options.cap && !options.tenant_class) {
      return usage("nothing to change was named: --gpu, --gpu-mem, --cap, --no-cap or --class");
    }
    return change_tenant(Daemon(services_.daemon), options, style_, out_, err_);
  }

  int ps() {
    const auto format = parse_output_format(line_.ps_arguments.format, kTenantFormats);
    if (!format) return usage(format.error().message);
    return list_tenants(Daemon(services_.daemon),
                        {.format = *format, .watch = line_.ps_arguments.watch}, style_, out_, err_);
  }

  int top() {
    const auto format = parse_output_format(line_.top_arguments.format, kVersionFormats);
    if (!format) return usage(format.error().message);
    return watch_tenants(Daemon(services_.daemon),
                         {.format = *format, .once = line_.top_arguments.once}, style_, out_, err_);
  }

  int doctor() {
    const auto format = parse_output_format(line_.doctor_format, kVersionFormats);
    if (!format) return usage(format.error().message);
    return run_doctor(this_machine(services_), *format, style_, out_);
  }

  int gpu() {
    if (line_.gpu->get_subcommands().empty()) return print(line_.help());
    const auto status =
        run_gpu(*line_.gpu, line_.gpu_arguments, Daemon(services_.daemon), style_, out_, err_);
    return status ? *status : usage(status.error().message);
  }

  int events() {
    const EventsArguments& arguments = line_.events_arguments;
    const auto format = parse_output_format(arguments.format, kEventFormats);
    if (!format) return usage(format.error().message);
    return show_events(Daemon(services_.daemon),
                       {.format = *format, .follow = arguments.follow, .since = arguments.since},
                       style_, out_, err_);
  }

  int ledger() {
    if (line_.ledger->get_subcommands().empty()) return print(line_.help());
    const auto status =
        run_ledger(*line_.ledger, line_.ledger_arguments, services_.ledger, style_, out_, err_);
    return status ? *status : usage(status.error().message);
  }

  int bench() {
    if (line_.bench->get_subcommands().empty()) return print(line_.help());
    const auto status = run_bench(*line_.bench, line_.bench_arguments,
                                  {.out = out_,
                                   .err = err_,
                                   .style = style_,
                                   .show_progress = terminal_.errors_are_terminal});
    return status ? *status : usage(status.error().message);
  }

  int slice() {
    if (line_.slice->get_subcommands().empty()) return print(line_.help());
    const auto status = run_slice(*line_.slice, line_.slice_arguments, Daemon(services_.daemon),
                                  {.out = out_, .err = err_, .style = style_});
    return status ? *status : usage(status.error().message);
  }

  int cdi() {
    if (line_.cdi->get_subcommands().empty()) return print(line_.help());
    if (line_.cdi->got_subcommand("show")) return print(services_.cdi_file());
    if (Daemon(services_.daemon).running()) {
      err_ << "divvy: divvyd runs and would write them anew; end it first\n";
      return kExitError;
    }
    const Status cleaned = services_.clean_cdi();
    return cleaned ? kExitOk : print(divvy::err(cleaned.error()));
  }

  int sim() {
    if (line_.sim->get_subcommands().empty()) return print(line_.help());
    const auto status = run_sim(*line_.sim, line_.sim_arguments,
                                {.out = out_,
                                 .err = err_,
                                 .style = style_,
                                 .show_progress = terminal_.errors_are_terminal});
    return status ? *status : usage(status.error().message);
  }

  int gpus() {
    const GpusArguments& arguments = line_.gpus_arguments;
    const auto format = parse_output_format(
        arguments.format, arguments.topology ? std::span<const OutputFormat>(kTopologyFormats)
                                             : std::span<const OutputFormat>(kGpuFormats));
    if (!format) return usage(format.error().message);
    return print(list_gpus(judged_by(Daemon(services_.daemon), services_.inventory),
                           {.format = *format, .topology = arguments.topology}, style_));
  }

  int version() {
    const auto format = parse_output_format(line_.version_format, kVersionFormats);
    if (!format) return usage(format.error().message);
    if (*format == OutputFormat::kTable) return print("divvy " + services_.version + "\n");
    return print(write_document(version_document(services_.version), *format));
  }

  int print(const Result<std::string>& text) {
    if (!text) {
      err_ << "divvy: " << text.error().message << "\n";
      return kExitError;
    }
    out_ << *text << std::flush;
    if (!out_) {
      err_ << "divvy: standard output could not be written\n";
      return kExitError;
    }
    return kExitOk;
  }

  int usage(const std::string& message) {
    err_ << "divvy: " << message << "\nTry `divvy" << line_.path() << " --help`.\n";
    return kExitUsage;
  }

  const Services& services_;
  const Terminal& terminal_;
  std::ostream& out_;
  std::ostream& err_;
  CommandLine line_;
  Style style_;
};

}  // namespace

int run(const std::vector<std::string>& arguments, const Services& services,
        const Terminal& terminal, std::ostream& out, std::ostream& err) {
  return Run(services, terminal, out, err)(arguments);
}

}  // namespace divvy::cli
