// The part of the inventory that concerns the connections between GPUs and with the processors.
// Callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/gpu.h"
#include "model/topology.h"
#include "nvml/library.h"

namespace divvy::nvml {

// `devices` and `gpus` are in the same order; a GPU without a handle has no known connection. What
// the driver does not answer is unknown and no problem of any GPU: most models have no NVLink.
[[nodiscard]] model::Topology find_topology(nvml::Library& library,
                                            const std::vector<std::optional<nvml::Device>>& devices,
                                            const std::vector<model::Gpu>& gpus);

// Numbers in ascending order as Linux writes them: "0-31,64-95".
[[nodiscard]] std::string to_cpu_list(const std::vector<std::uint32_t>& cpus);

}  // namespace divvy::nvml
