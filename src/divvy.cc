// `divvy`: the program of the user's shell. Composition only: what the commands need is made here.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/app.h"
#include "model/node.h"
#include "node/inventory.h"
#include "nvml/library.h"

namespace {

using divvy::ErrorCode;
using divvy::Result;

// The variable by which the environment asks for simulated GPUs, or null.
const char* simulation_request() {
  for (const char* name : {"DIVVY_SIM_GPUS", "DIVVY_SIM_CONFIG", "DIVVY_SIM_STATE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return name;
  }
  return nullptr;
}

// The simulated driver ships with Divvy, at the same place relative to the program when installed
// and in the build tree.
Result<std::filesystem::path> simulated_nvml(const char* request) {
  std::error_code code;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", code);
  auto library = program.parent_path().parent_path() / "lib/divvy/simgpu/libnvidia-ml.so.1";
  if (code || !std::filesystem::exists(library, code)) {
    return divvy::err(ErrorCode::kFailedPrecondition,
                      "{} asks for simulated GPUs, but the simulated driver is not at {}.\n"
                      "Install Divvy again, or unset {} to see this machine's own GPUs.",
                      request, library.string(), request);
  }
  return library;
}

Result<divvy::model::Node> take_inventory() {
  divvy::nvml::OpenOptions options;
  if (const char* request = simulation_request()) {
    DIVVY_TRY(library, simulated_nvml(request));
    options = {.path = library.string(), .simulated = true};
  }
  auto nvml = divvy::nvml::open(options);
  if (!nvml && options.simulated) {
    // To advise installing a driver would be wrong here; the simulated one has told why on its own.
    return divvy::err(ErrorCode::kFailedPrecondition,
                      "the simulated GPUs could not be started ({}).\n"
                      "Look at the DIVVY_SIM_... variables: DIVVY_SIM_GPUS=4 makes four H200s.",
                      nvml.error().message);
  }
  if (!nvml) return divvy::err(std::move(nvml).error());
  return divvy::node::take_inventory(**nvml);
}

}  // namespace

int main(int argc, char** argv) {
  const divvy::cli::Services services{.version = DIVVY_VERSION, .inventory = take_inventory};
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  return divvy::cli::run(arguments, services, divvy::cli::this_terminal(), std::cout, std::cerr);
}
