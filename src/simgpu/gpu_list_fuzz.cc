// The list of GPUs in DIVVY_SIM_GPUS, and the quantities of the configuration, are what somebody
// typed: any text is either read or refused with a reason.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "simgpu/config.h"
#include "simgpu/quantity.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace divvy::simgpu;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string error;
  const auto config = parse_gpu_list(text, &error);
  if (config ? config->gpus.size() > kMaxGpus : error.empty()) abort();
  error.clear();
  if (!parse_size(text, &error) && error.empty()) abort();
  error.clear();
  if (!parse_duration_ns(text, &error) && error.empty()) abort();
  return 0;
}
