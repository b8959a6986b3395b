// NVML's entry points as a struct of pointers, filled from a loaded library. A pointer is null
// where this version of the library does not have the function. Made once by open(), then constant.
#pragma once

#include <string>

#include "abi/nvml.h"
#include "base/result.h"

namespace divvy::nvml {

struct Functions {
#define DIVVY_NVML(symbol, arguments) symbol##_fn symbol = nullptr;
#include "abi/nvml_functions.inc"
  nvmlErrorString_fn nvmlErrorString = nullptr;
};

// Loads the file and looks every function up. The library stays loaded for the life of the process,
// because its own threads may still run inside it when we are done. kNotFound when it cannot be
// loaded, kUnsupported when it lacks what nothing works without.
[[nodiscard]] Result<Functions> load_functions(const std::string& path);

}  // namespace divvy::nvml
