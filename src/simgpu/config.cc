#include "simgpu/config.h"

#include <stdlib.h>
#include <unistd.h>

#include <cctype>
#include <fstream>
#include <iterator>

#include "simgpu/catalogue.h"
#include "simgpu/machine_layout.h"

namespace divvy::simgpu {
namespace {

constexpr const char* kDefaultModel = "H200";
constexpr size_t kMaxConfigBytes = 1U << 20U;

std::string known_models() {
  std::string text;
  for (const std::string& name : model_names()) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The number in front of the 'x' of "4xH200", or the whole of "4". Model names begin with a
// letter, so a leading digit can only be a count.
std::optional<int> leading_count(const std::string& item, size_t* rest) {
  size_t at = 0;
  int count = 0;
  while (at < item.size() && std::isdigit(static_cast<unsigned char>(item[at])) != 0) {
    count = count * 10 + (item[at] - '0');
    if (count > kMaxGpus) return std::nullopt;
    ++at;
  }
  *rest = at;
  return count;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::optional<SimConfig> parse_gpu_list(const std::string& text, std::string* error) {
  const auto wrong = [&](const std::string& item, const std::string& why) {
    *error = "the list of GPUs '" + text + "' cannot be read at '" + item + "': " + why +
             " (right would be 4, 4xH200 or 2xH100-80GB,2xL4)";
    return std::nullopt;
  };
  std::vector<PlannedGpu> gpus;
  size_t from = 0;
  while (from <= text.size()) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const std::string item = trimmed(text.substr(from, comma - from));
    from = comma + 1;
    if (item.empty()) return wrong(item, "a number or a model is missing");
    size_t rest = 0;
    const std::optional<int> count = leading_count(item, &rest);
    if (!count) return wrong(item, "at most " + std::to_string(kMaxGpus) + " GPUs are simulated");
    std::string model = kDefaultModel;
    if (rest == 0) {
      model = item;
    } else if (rest < item.size()) {
      if (item[rest] != 'x' && item[rest] != 'X') {
        return wrong(item, "an 'x' belongs between the number and the model");
      }
      model = item.substr(rest + 1);
    }
    const std::optional<GpuSpec> spec = find_model(model);
    if (!spec) {
      const std::string near = nearest_name(model, model_names());
      return wrong(item, near.empty() ? "the known models are " + known_models()
                                      : "did you mean " + near + "?");
    }
    for (int i = 0; i < (rest == 0 ? 1 : *count); ++i) {
      gpus.push_back(PlannedGpu{.spec = *spec, .fabric = fabric_of(model)});
      gpus.back().spec.numa_node = kNumaOpen;
      if (gpus.size() > kMaxGpus) {
        return wrong(item, "at most " + std::to_string(kMaxGpus) + " GPUs are simulated");
      }
    }
  }
  settle_identities(gpus);
  link_as_usual(gpus);
  SimConfig config;
  for (const PlannedGpu& gpu : gpus) config.gpus.push_back(gpu.spec);
  return config;
}

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = getenv(name);
    if (value == nullptr || value[0] == 0) return std::nullopt;
    return std::string(value);
  };
}

bool simulation_requested(const Environment& environment) {
  return environment("DIVVY_SIM_GPUS") || environment("DIVVY_SIM_CONFIG") ||
         environment("DIVVY_SIM_STATE");
}

std::optional<SimConfig> config_from(const Environment& environment, std::string* error) {
  if (const auto path = environment("DIVVY_SIM_CONFIG")) {
    std::ifstream file(*path, std::ios::binary);
    if (!file) {
      *error = "the file " + *path + " (DIVVY_SIM_CONFIG) cannot be read";
      return std::nullopt;
    }
    std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.size() > kMaxConfigBytes) {
      *error = "the file " + *path + " (DIVVY_SIM_CONFIG) is too large to be a configuration";
      return std::nullopt;
    }
    return parse_yaml(text, *path, error);
  }
  const auto list = environment("DIVVY_SIM_GPUS");
  std::optional<SimConfig> config = parse_gpu_list(list.value_or("1"), error);
  if (!config) *error = "DIVVY_SIM_GPUS: " + *error;
  return config;
}

std::string state_path(const Environment& environment) {
  if (const auto path = environment("DIVVY_SIM_STATE")) return *path;
  return "/dev/shm/divvy-simgpu-" + std::to_string(getuid());
}

}  // namespace divvy::simgpu
