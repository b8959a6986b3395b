// The driver that the programs use: this machine's own, or the simulated one when the environment
// asks for it. Composition shared by `divvy` and `divvyd`.
#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "nvml/library.h"

namespace divvy {

// The folder that holds bin/ and lib/divvy/, both when installed and in the build tree.
[[nodiscard]] std::filesystem::path installation();

// Does the environment ask for simulated GPUs?
[[nodiscard]] bool wants_simulated_gpus();

// The folder of the simulated driver's libraries, and the file that processes on the same simulated
// GPUs share.
[[nodiscard]] std::filesystem::path simulated_libraries();
[[nodiscard]] std::filesystem::path simulated_state();

[[nodiscard]] Result<std::unique_ptr<nvml::Library>> open_driver();

}  // namespace divvy
