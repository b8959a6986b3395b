#include "nvml/gpu_queries.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "nvml/error.h"

namespace divvy::nvml {
namespace {

using model::HealthState;

// How bad a state is, to keep the worst of several findings.
int severity(HealthState state) {
  switch (state) {
    case HealthState::kQuarantined:
      return 2;
    case HealthState::kSuspect:
      return 1;
    default:
      return 0;
  }
}

// Asks the questions in turn and collects answers, problems and signs of illness.
class Examination {
 public:
  Examination(nvml::Library& library, nvml::Device device, std::uint32_t index)
      : library_(library), device_(device) {
    gpu_.index = model::GpuIndex(index);
    gpu_.health.state = HealthState::kHealthy;
  }

  void identify() {
    // A text that makes no sense is a problem like any other.
    gpu_.uuid = expect("uuid", library_.uuid(device_).and_then(model::GpuUuid::parse));
    gpu_.name = expect("model", library_.name(device_));
    gpu_.pci = expect("pci address", library_.pci_address(device_));
    gpu_.minor_number = if_supported("minor number", library_.minor_number(device_));
    gpu_.compute_capability =
        if_supported("compute capability", library_.compute_capability(device_));
    gpu_.mig_mode = if_supported("mig mode", library_.mig_mode(device_));
  }

  void measure() {
    if (const auto memory = expect("memory", library_.memory(device_))) {
      gpu_.memory_total = memory->total;
      gpu_.memory_used = memory->used;
      gpu_.memory_reserved = memory->reserved;
    }
    if (const auto rates = expect("utilisation", library_.utilization(device_))) {
      gpu_.utilization_percent = rates->gpu_percent;
    }
    gpu_.temperature_c = expect("temperature", library_.temperature_c(device_));
    gpu_.power_mw = expect("power", library_.power_mw(device_));
    gpu_.power_limit_mw = if_supported("power limit", library_.power_limit_mw(device_));
  }

  void locate(const std::string& pci_devices) {
    // What matters is which processors are near. nvmlDeviceGetNumaNodeId tells something else where
    // the GPU's own memory is a NUMA node, so it is asked last. The kernel knows nothing of
    // simulated GPUs, and whatever really sits at such an address is another device.
    const auto near = library_.near_numa_nodes(device_);
    if (near && !near->empty()) {
      gpu_.numa_node = near->front();
      return;
    }
    if (!library_.simulated() && gpu_.pci) gpu_.numa_node = numa_node_of(pci_devices, *gpu_.pci);
    if (!gpu_.numa_node) {
      gpu_.numa_node = if_supported("numa node", library_.own_numa_node(device_));
    }
  }

  void look_for_damage() {
    const auto rows = if_supported("remapped rows", library_.remapped_rows(device_));
    if (rows && rows->failed) {
      find(HealthState::kSuspect,
           "a broken memory row could not be replaced; have the GPU exchanged");
    } else if (rows && rows->pending) {
      find(HealthState::kSuspect, "a broken memory row is replaced at the next reset of the GPU");
    }
    const auto errors = if_supported("memory errors", library_.uncorrected_memory_errors(device_));
    if (errors && *errors > 0) {
      find(HealthState::kSuspect,
           fmt::format("{} uncorrected memory {} since the driver was loaded", *errors,
                       *errors == 1 ? "error" : "errors"));
    }
    const auto slowdown =
        if_supported("slowdown temperature", library_.slowdown_temperature_c(device_));
    if (slowdown && gpu_.temperature_c && *gpu_.temperature_c >= *slowdown) {
      find(HealthState::kSuspect,
           fmt::format("too hot: {} degrees Celsius; clocks are lowered from {} on",
                       *gpu_.temperature_c, *slowdown));
    }
  }

  model::Gpu take() && { return std::move(gpu_); }

 private:
  // Keeps the answer to a question that every GPU should answer.
  template <typename T>
  std::optional<T> expect(std::string_view field, Result<T> answer) {
    if (answer) return *std::move(answer);
    note(field, answer.error());
    return std::nullopt;
  }

  // Keeps the answer to a question that some models or drivers rightly do not answer.
  template <typename T>
  std::optional<T> if_supported(std::string_view field, Result<T> answer) {
    if (!answer && answer.error().code == ErrorCode::kUnsupported) return std::nullopt;
    return expect(field, std::move(answer));
  }

  void note(std::string_view field, const Error& error) {
    // One line is enough here; a parser's picture of the place is not.
    gpu_.problems.push_back(
        {std::string(field), error.message.substr(0, error.message.find('\n'))});
    if (nvml::says_gpu_is_lost(error)) {
      find(HealthState::kQuarantined,
           error.message + ": it fell off the bus; reset it or restart the machine");
    } else if (nvml::says_reset_is_required(error)) {
      find(HealthState::kQuarantined, error.message);
    } else if (error.code == ErrorCode::kTimeout) {
      find(HealthState::kQuarantined, error.message + "; reset it or restart the machine");
    } else if (error.code != ErrorCode::kUnsupported) {
      find(HealthState::kSuspect, "some questions to the driver fail");
    }
  }

  // The first of the worst findings is the one to tell.
  void find(HealthState state, std::string reason) {
    if (severity(state) > severity(gpu_.health.state)) {
      gpu_.health = model::Health{state, std::move(reason)};
    }
  }

  static std::optional<std::uint32_t> numa_node_of(const std::string& pci_devices,
                                                   const model::PciAddress& address) {
    std::ifstream file(pci_devices + "/" + to_sysfs_name(address) + "/numa_node");
    std::string line;
    if (!std::getline(file, line)) return std::nullopt;
    const std::string_view text = trim(line);
    std::uint32_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    // The kernel writes -1 for "not known", which is no unsigned number.
    if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
  }

  nvml::Library& library_;
  nvml::Device device_;
  model::Gpu gpu_;
};

}  // namespace

model::Gpu describe_gpu(nvml::Library& library, nvml::Device device, std::uint32_t index,
                        const std::string& pci_devices) {
  Examination examination(library, device, index);
  examination.identify();
  examination.measure();
  examination.locate(pci_devices);
  examination.look_for_damage();
  return std::move(examination).take();
}

model::Gpu unreachable_gpu(std::uint32_t index, const Error& error) {
  model::Gpu gpu;
  gpu.index = model::GpuIndex(index);
  gpu.problems.push_back({"handle", error.message});
  if (error.code == ErrorCode::kPermissionDenied) {
    // The GPU may be in order and only not ours to look at.
    gpu.health = {HealthState::kUnknown,
                  error.message + ": this user may not open the GPU's device file"};
  } else if (nvml::says_gpu_is_lost(error)) {
    gpu.health = {HealthState::kQuarantined,
                  error.message + ": it fell off the bus; reset it or restart the machine"};
  } else {
    gpu.health = {HealthState::kQuarantined, "the driver does not hand it out: " + error.message};
  }
  return gpu;
}

}  // namespace divvy::nvml
