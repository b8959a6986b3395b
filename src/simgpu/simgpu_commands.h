// The commands of the program `simgpu`: looking at simulated GPUs and troubling them.
//
// Called once, from main(). Each writes its answer to `out`, or one sentence to `err`, and returns
// the exit status: 0 done, 1 could not be done, 2 wrongly asked.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "simgpu/config.h"
#include "simgpu/state.h"

namespace divvy::simgpu {

enum ExitStatus { kDone = 0, kFailed = 1, kMisused = 2 };

// Where simulated GPUs come from, as the options --gpus, --config and --state say. An empty text
// leaves it to the environment.
struct Source {
  std::string gpus;
  std::string config;
  std::string state;
};

// Writes the options into this process's environment, which the driver libraries read. False, with
// a sentence in `error`, when they make no sense.
bool export_source(const Source& source, std::string* error);

// The state that the environment names. One that does not exist yet is made only when the
// environment also says what GPUs it should have.
std::unique_ptr<SharedState> find_state(std::string* error);

int list_command(SharedState& state, bool json, std::ostream& out);

// `words` are KIND and its arguments, as in `simgpu fault 0 xid 79`.
int fault_command(SharedState& state, const std::string& gpu, const std::vector<std::string>& words,
                  std::ostream& out, std::ostream& err);

int show_clock_command(SharedState& state, std::ostream& out);
int advance_clock_command(SharedState& state, const std::string& step, std::ostream& out,
                          std::ostream& err);

int reset_command(const Environment& environment, std::ostream& out, std::ostream& err);

// The kinds of fault with what each does, for the help.
std::string fault_kinds_help();

}  // namespace divvy::simgpu
