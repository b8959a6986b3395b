// `simgpu run` and `simgpu env`: putting a program onto simulated GPUs.
//
// Called once, from main(), while the process has one thread.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "simgpu/simgpu_commands.h"

namespace divvy::simgpu {

// The folder with the simulated driver libraries that belongs to this program. Empty, with a
// sentence in `error`, when it is not where it should be.
std::string library_folder(std::string* error);

// Runs `command` with the simulated driver in place of a real one, passes signals on to it and
// returns its exit status (128 + number for one that a signal ended). Unless the options name a
// state, the GPUs are the command's own and vanish with it.
int run_command(const Source& source, const std::vector<std::string>& command, std::ostream& err);

// Prints lines for a shell to evaluate, after which every program started there runs on simulated
// GPUs.
int env_command(const Source& source, std::ostream& out, std::ostream& err);

}  // namespace divvy::simgpu
