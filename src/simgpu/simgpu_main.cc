// The program `simgpu`: runs programs on simulated GPUs, looks at the GPUs and troubles them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "simgpu/simgpu_commands.h"
#include "simgpu/simgpu_run.h"

namespace sim = divvy::simgpu;

namespace {

void add_source(CLI::App* command, sim::Source& source) {
  command->add_option("--gpus", source.gpus, "What GPUs: 4, 4xH200 or 2xH100-80GB,2xL4");
  command->add_option("--config", source.config, "A YAML file that says everything");
  command->add_option("--state", source.state, "The file to share with others on the same GPUs");
}

// Runs `command` on the state that the environment names.
template <typename Command>
int on_state(Command&& command) {
  std::string error;
  const std::unique_ptr<sim::SharedState> state = sim::find_state(&error);
  if (state == nullptr) {
    std::cerr << "simgpu: " << error << "\n";
    return sim::kFailed;
  }
  return command(*state);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Simulated GPUs: a drop-in driver that needs no GPU.", "simgpu"};
  app.require_subcommand(1);
  app.footer("The documentation is docs/simulated-gpus.md.");

  // Everything after "--" belongs to the command and is none of our options.
  char** const dashes = std::find_if(argv + std::min(argc, 1), argv + argc,
                                     [](const char* word) { return std::string(word) == "--"; });
  const std::vector<std::string> after(dashes == argv + argc ? dashes : dashes + 1, argv + argc);

  sim::Source source;
  std::vector<std::string> command_words;
  CLI::App* run = app.add_subcommand("run", "Run a command on simulated GPUs: simgpu run -- CMD");
  add_source(run, source);
  run->add_option("command", command_words, "The command, after --");

  CLI::App* env = app.add_subcommand("env", "Print lines for: eval \"$(simgpu env --gpus 4)\"");
  add_source(env, source);

  CLI::App* list = app.add_subcommand("list", "Show the GPUs, who is on them and what ails them");
  std::string format = "table";
  list->add_option("-o,--output", format, "table or json")->check(CLI::IsMember({"table", "json"}));
  list->add_option("--state", source.state, "The state file to look at");

  CLI::App* fault = app.add_subcommand("fault", "Put a fault on a GPU: simgpu fault 0 xid 79");
  fault->footer(sim::fault_kinds_help());
  std::string gpu;
  std::vector<std::string> words;
  fault->add_option("gpu", gpu, "Index or UUID")->required();
  fault->add_option("kind", words, "The kind of fault and its arguments")->required();
  fault->add_option("--state", source.state, "The state file of the GPUs");

  CLI::App* clock = app.add_subcommand("clock", "Show the clock of the GPUs");
  clock->add_option("--state", source.state, "The state file of the GPUs");
  CLI::App* advance = clock->add_subcommand("advance", "Move the manual clock: clock advance 5ms");
  std::string step;
  advance->add_option("step", step, "How far, such as 5ms")->required();

  CLI::App* reset = app.add_subcommand("reset", "Remove the state; the next program starts afresh");
  reset->add_option("--state", source.state, "The state file to remove");

  try {
    app.parse(static_cast<int>(dashes - argv), argv);
    command_words.insert(command_words.end(), after.begin(), after.end());
    if (run->parsed() && command_words.empty()) {
      throw CLI::RequiredError("simgpu run: a command after --");
    }
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? sim::kDone : sim::kMisused;
  }

  if (run->parsed()) return sim::run_command(source, command_words, std::cerr);
  if (env->parsed()) return sim::env_command(source, std::cout, std::cerr);

  std::string error;
  if (!sim::export_source(source, &error)) {
    std::cerr << "simgpu: " << error << "\n";
    return sim::kMisused;
  }
  if (reset->parsed()) {
    return sim::reset_command(sim::process_environment(), std::cout, std::cerr);
  }
  return on_state([&](sim::SharedState& state) {
    if (list->parsed()) return sim::list_command(state, format == "json", std::cout);
    if (fault->parsed()) {
      return sim::fault_command(state, gpu, words, std::cout, std::cerr);
    }
    if (advance->parsed()) {
      return sim::advance_clock_command(state, step, std::cout, std::cerr);
    }
    return sim::show_clock_command(state, std::cout);
  });
}
