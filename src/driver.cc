#include "driver.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "nvml/guarded_library.h"

namespace divvy {
namespace {

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
  auto library = simulated_libraries() / "libnvidia-ml.so.1";
  if (!std::filesystem::exists(library, code)) {
    return err(ErrorCode::kFailedPrecondition,
               "{} asks for simulated GPUs, but the simulated driver is not at {}.\n"
               "Install Divvy again, or unset {} to see this machine's own GPUs.",
               request, library.string(), request);
  }
  return library;
}

}  // namespace

std::filesystem::path simulated_libraries() {
  // A container has them elsewhere, and need not have Divvy installed.
  const char* folder = std::getenv("DIVVY_SIM_LIBRARIES");
  if (folder != nullptr && *folder != '\0') return folder;
  return installation() / "lib/divvy/simgpu";
}

std::filesystem::path simulated_state() {
  const char* file = std::getenv("DIVVY_SIM_STATE");
  if (file != nullptr && *file != '\0') return std::filesystem::absolute(file);
  return fmt::format("/dev/shm/divvy-simgpu-{}", ::getuid());
}

std::filesystem::path installation() {
  std::error_code code;
  return std::filesystem::read_symlink("/proc/self/exe", code).parent_path().parent_path();
}

std::map<std::string, std::string> simulation_environment() {
  if (!wants_simulated_gpus()) return {};
  return {{"DIVVY_SIM_STATE", simulated_state().string()}};
}

bool wants_simulated_gpus() { return simulation_request() != nullptr; }

std::string cuda_library() {
  if (!wants_simulated_gpus()) return "libcuda.so.1";
  return (installation() / "lib/divvy/simgpu/libcuda.so.1").string();
}

Result<std::unique_ptr<nvml::Library>> open_driver() {
  DIVVY_TRY(library, open_driver_directly());
  return nvml::guarded(std::move(library));
}

Result<std::unique_ptr<nvml::Library>> open_driver_directly() {
  nvml::OpenOptions options;
  if (const char* request = simulation_request()) {
    DIVVY_TRY(library, simulated_nvml(request));
    options = {.path = library.string(), .simulated = true};
  }
  auto nvml = nvml::open(options);
  if (!nvml && options.simulated) {
    // To advise installing a driver would be wrong here; the simulated one has told why on its own.
    return err(ErrorCode::kFailedPrecondition,
               "the simulated GPUs could not be started ({}).\n"
               "Look at the DIVVY_SIM_... variables: DIVVY_SIM_GPUS=4 makes four H200s.",
               nvml.error().message);
  }
  return nvml;
}

std::map<std::string, std::string> driver_environment() {
  if (!wants_simulated_gpus()) return {};
  std::map<std::string, std::string> environment{
      {"LD_LIBRARY_PATH", simulated_libraries().string()}};
  for (const char* name : {"DIVVY_SIM_GPUS", "DIVVY_SIM_CONFIG"}) {
    if (const char* value = std::getenv(name)) environment[name] = value;
  }
  environment.merge(simulation_environment());
  return environment;
}

}  // namespace divvy
