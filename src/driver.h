// The driver that the programs use: this machine's own, or the simulated one when the environment
// asks for it. Composition shared by `divvy` and `divvyd`.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "nvml/library.h"

namespace divvy {

// The folder that holds bin/ and lib/divvy/, both when installed and in the build tree.
[[nodiscard]] std::filesystem::path installation();

// Does the environment ask for simulated GPUs?
[[nodiscard]] bool wants_simulated_gpus();
// What a process needs to be on the same simulated GPUs, whoever its user is: the file that they
// share. Empty for real ones.
[[nodiscard]] std::map<std::string, std::string> simulation_environment();

// What a member that is a process needs to find the driver: nothing, but for a simulated one.
[[nodiscard]] std::map<std::string, std::string> driver_environment();

// The folder of the simulated driver's libraries, and the file that processes on the same simulated
// GPUs share.
[[nodiscard]] std::filesystem::path simulated_libraries();
[[nodiscard]] std::filesystem::path simulated_state();

// Guarded (nvml/guarded_library.h): no question hangs whoever asks.
[[nodiscard]] Result<std::unique_ptr<nvml::Library>> open_driver();
// As it is, for a process that can be killed.
[[nodiscard]] Result<std::unique_ptr<nvml::Library>> open_driver_directly();

// The file of the same driver that programs compute with: a path, or a name for the linker.
[[nodiscard]] std::string cuda_library();

}  // namespace divvy
