// The part of the inventory that concerns one GPU: asks everything, keeps what was answered, writes
// down what was not, and judges the GPU's health from both. Callable from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "model/gpu.h"
#include "nvml/library.h"

namespace divvy::nvml {

// `pci_devices` is where the kernel describes PCI devices (/sys/bus/pci/devices).
[[nodiscard]] model::Gpu describe_gpu(nvml::Library& library, nvml::Device device,
                                      std::uint32_t index, const std::string& pci_devices);

// A GPU that the driver counts but does not hand out.
[[nodiscard]] model::Gpu unreachable_gpu(std::uint32_t index, const Error& error);

}  // namespace divvy::nvml
