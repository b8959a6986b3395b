// What GPUs to simulate: read from a small YAML file or from the environment.
//
//   DIVVY_SIM_GPUS=4            four GPUs of the default model (H200)
//   DIVVY_SIM_GPUS=2xH100,2xL4  by model
//   DIVVY_SIM_CONFIG=sim.yaml   everything (docs/simulated-gpus.md has the schema)
//   DIVVY_SIM_STATE=/dev/shm/x  where the shared state lives; default depends on the user
//
// Pure: no state but the environment it is given.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "simgpu/shared.h"

namespace divvy::simgpu {

struct SimConfig {
  std::vector<GpuSpec> gpus;
  std::string driver_version = "580.159.04";
  uint32_t cuda_version = 13000;
  uint64_t slice_ns = 2'000'000;
  uint64_t default_kernel_ns = 2'000;
  uint64_t launch_ns = 0;
  ClockMode clock = ClockMode::kReal;
};

// A known model by its short name ("H200", "A100-40GB"), with every field but identity filled.
std::optional<GpuSpec> find_model(const std::string& name);
std::vector<std::string> model_names();

// On a mistake both return nothing and leave one sentence, with the place, in `error`.
std::optional<SimConfig> parse_gpu_list(const std::string& text, std::string* error);
std::optional<SimConfig> parse_yaml(const std::string& text, const std::string& file_name,
                                    std::string* error);

using Environment = std::function<std::optional<std::string>(const char*)>;
Environment process_environment();

// True when the environment asks for simulated GPUs.
bool simulation_requested(const Environment& environment);
std::optional<SimConfig> config_from(const Environment& environment, std::string* error);
std::string state_path(const Environment& environment);

}  // namespace divvy::simgpu
