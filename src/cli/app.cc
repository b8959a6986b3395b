#include "cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>
#include <span>

#include "base/text.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kGpuFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                        OutputFormat::kJson, OutputFormat::kYaml,
                                        OutputFormat::kName};
constexpr OutputFormat kTopologyFormats[] = {OutputFormat::kTable, OutputFormat::kWide,
                                             OutputFormat::kJson, OutputFormat::kYaml};
constexpr OutputFormat kVersionFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                            OutputFormat::kYaml};

constexpr const char* kMainFooter = R"(Examples:
  divvy gpus                         the GPUs of this machine
  divvy gpus --topology              how they are connected
  divvy gpus -o json                 the same for a program
  DIVVY_SIM_GPUS=4 divvy gpus        four simulated GPUs, on any machine

Exit status:
  0  it worked
  1  it did not work; standard error says why
  2  the command line was wrong

Colours appear on a terminal; NO_COLOR=1 or --color never turns them off.
`divvy COMMAND --help` tells more about a command.)";

constexpr const char* kGpusFooter = R"(Output formats:
  table   one line per GPU (the default)
  wide    also UUID, PCI address, NUMA node, NVLink peers and driver
  json    everything, in the schema divvy/v1; what is not known is null
  yaml    the same as YAML
  name    one UUID per line

Examples:
  divvy gpus -o wide
  divvy gpus --topology -o json
  DIVVY_SIM_GPUS=8xH100 divvy gpus   eight simulated H100s

A GPU that does not answer every question is listed with what is known; the
lines under the table say what is missing and why. --color works here too.)";

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
};

struct GpusArguments {
  std::string format = "table";
  bool topology = false;
};

struct CommandLine {
  CLI::App app{"Divvy shares GPUs: it cuts them into slices and keeps everybody inside theirs."};
  CLI::App* gpus = nullptr;
  CLI::App* version = nullptr;
  std::string color = "auto";
  bool wants_version = false;
  GpusArguments gpus_arguments;
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

    version = app.add_subcommand("version", "Print the version of Divvy");
    version->group("Commands");
    version->add_option("-o,--output", version_format, "Output format: table, json or yaml")
        ->type_name("FORMAT");
  }

  std::string help() const {
    const CLI::App& command = chosen();
    return &command == &app ? app.help() : command.help(app.get_name());
  }

  const CLI::App& chosen() const {
    const auto commands = app.get_subcommands();
    return commands.empty() ? app : *commands.front();
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
  const bool has_command = &line.chosen() != &line.app;
  const std::string place = has_command ? "`divvy " + line.chosen().get_name() + "`" : "`divvy`";

  std::string text;
  std::vector<std::string> candidates;
  if (is_option) {
    text = fmt::format("{} has no option {}", place, shown);
    candidates = option_names(line);
  } else if (has_command) {
    text = fmt::format("{} takes no argument \"{}\"", place, shown);
  } else {
    text = fmt::format("there is no command \"{}\"", shown);
    candidates = command_names(line.app);
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

  int operator()(const std::vector<std::string>& arguments) {
    try {
      // CLI11 takes the words from the back.
      line_.app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      return print(line_.help());
    } catch (const CLI::ExtrasError&) {
      const std::vector<std::string> rest = line_.app.remaining(true);
      return usage(rest.empty() ? "too many arguments" : unknown_word(line_, rest.front()));
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
    if (line_.version->parsed()) return version();
    return print(line_.help());
  }

 private:
  int gpus() {
    const GpusArguments& arguments = line_.gpus_arguments;
    const auto format = parse_output_format(
        arguments.format, arguments.topology ? std::span<const OutputFormat>(kTopologyFormats)
                                             : std::span<const OutputFormat>(kGpuFormats));
    if (!format) return usage(format.error().message);
    return print(list_gpus(services_.inventory, {.format = *format, .topology = arguments.topology},
                           style_));
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
    const bool has_command = &line_.chosen() != &line_.app;
    err_ << "divvy: " << message << "\nTry `divvy "
         << (has_command ? line_.chosen().get_name() + " " : "") << "--help`.\n";
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
