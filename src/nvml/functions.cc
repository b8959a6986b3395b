#include "nvml/functions.h"

#include <dlfcn.h>

namespace divvy::nvml {
namespace {

template <typename Function>
void look_up(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
}

}  // namespace

Result<Functions> load_functions(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return err(ErrorCode::kNotFound, "NVML could not be loaded: {}",
               reason != nullptr ? reason : path.c_str());
  }
  Functions functions;
#define DIVVY_NVML(symbol, arguments) look_up(library, #symbol, functions.symbol);
#include "abi/nvml_functions.inc"
  look_up(library, "nvmlErrorString", functions.nvmlErrorString);

  const bool usable = functions.nvmlInit_v2 != nullptr && functions.nvmlShutdown != nullptr &&
                      functions.nvmlDeviceGetCount_v2 != nullptr &&
                      functions.nvmlDeviceGetHandleByIndex_v2 != nullptr;
  if (!usable) {
    return err(ErrorCode::kUnsupported,
               "{} is not an NVML that Divvy can use: it has no nvmlInit_v2, nvmlShutdown, "
               "nvmlDeviceGetCount_v2 or nvmlDeviceGetHandleByIndex_v2; install a newer driver",
               path);
  }
  return functions;
}

}  // namespace divvy::nvml
