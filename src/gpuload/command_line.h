// What the user typed, as values. Pure but for --help, whose text it returns.
#pragma once

#include <string>
#include <variant>

#include "gpuload/modes.h"

namespace divvy::gpuload {

struct InfoOptions {};
struct ForkOptions {};
struct ServeIpcOptions {
  uint64_t chunk = 0;
};

using ModeOptions =
    std::variant<InfoOptions, SpinOptions, LoopOptions, LaunchOptions, CostOptions, PoissonOptions,
                 MemoryOptions, CopyOptions, GraphOptions, AllocOptions, ForkOptions,
                 ThreadsOptions, MixOptions, ServeIpcOptions>;

struct CommandLine {
  std::string mode;
  ModeOptions options;
  int device = 0;
  std::string out;  // empty: standard output
  bool text = false;
  bool quiet = false;
};

// Asked for help: print it and exit 0. A mistake: one sentence, exit 2.
struct CommandLineHelp {
  std::string text;
};
struct CommandLineMistake {
  std::string sentence;
};

std::variant<CommandLine, CommandLineHelp, CommandLineMistake> parse_command_line(
    int argc, const char* const* argv);

}  // namespace divvy::gpuload
