// A configuration file comes from the user: whatever is in it, reading it ends, and what is
// accepted is a machine that the driver libraries can be given.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "simgpu/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace divvy::simgpu;
  std::string error;
  const auto config =
      parse_yaml(std::string(reinterpret_cast<const char*>(data), size), "fuzz.yaml", &error);
  if (!config) {
    if (error.empty()) abort();
    return 0;
  }
  if (config->gpus.size() > kMaxGpus) abort();
  for (const GpuSpec& gpu : config->gpus) {
    if (strnlen(gpu.uuid, sizeof(gpu.uuid)) != 40) abort();
    if (strnlen(gpu.pci, sizeof(gpu.pci)) != 16) abort();
    if (gpu.link_count > kMaxLinks) abort();
    if (gpu.reserved_bytes + gpu.context_bytes >= gpu.memory_bytes) abort();
    for (const int8_t peer : gpu.link_peer) {
      if (peer >= static_cast<int>(config->gpus.size())) abort();
    }
  }
  return 0;
}
