#include "nvml/inventory.h"

#include <unistd.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "nvml/gpu_links.h"
#include "nvml/gpu_queries.h"

namespace divvy::nvml {
namespace {

std::string kernel_hostname() {
  std::array<char, 256> name{};
  // A machine without a name is still worth listing.
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

template <typename T>
std::optional<T> if_answered(Result<T> answer) {
  if (!answer) return std::nullopt;
  return *std::move(answer);
}

}  // namespace

Result<model::Node> take_inventory(nvml::Library& library, const InventoryOptions& options) {
  DIVVY_TRY(count, with_context(library.device_count(), "the driver does not count its GPUs"));

  model::Node::Parts parts;
  parts.hostname = options.hostname.empty() ? kernel_hostname() : options.hostname;
  parts.simulated = library.simulated();
  parts.driver_version = if_answered(library.driver_version());
  if (const auto number = library.cuda_version()) {
    parts.cuda_version = model::CudaVersion::from_driver_number(*number);
  }

  std::vector<std::optional<nvml::Device>> devices;
  for (std::uint32_t index = 0; index < count; ++index) {
    const Result<nvml::Device> device = library.device(index);
    devices.push_back(if_answered(device));
    parts.gpus.push_back(device ? describe_gpu(library, *device, index, options.pci_devices)
                                : unreachable_gpu(index, device.error()));
    parts.gpus.back().driver_version = parts.driver_version;
  }
  parts.topology = find_topology(library, devices, parts.gpus);
  return model::Node::create(std::move(parts));
}

}  // namespace divvy::nvml
