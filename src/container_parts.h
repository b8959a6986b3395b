// What the devices for containers are made of: where the driver, the shim and the CDI folders are
// on this machine. Composition shared by `divvy` and `divvyd`.
#pragma once

#include <filesystem>
#include <memory>

#include "inject/container_devices.h"
#include "model/node.h"

namespace divvy {

struct ContainerSettings {
  std::filesystem::path run;
  std::filesystem::path state;  // Empty: nothing will be written
  std::filesystem::path cdi;    // Empty: the default
  bool graphics = false;        // Containers may also draw, encode and decode
};

// Root's own daemon tells every runtime of the machine: /etc/cdi for GPUs, /var/run/cdi for slices,
// which do not outlast it. Simulated GPUs leave nothing in /etc. Every other daemon writes into its
// run folder, for runtimes that are told to look there.
[[nodiscard]] inject::ContainerDevices::Parts container_parts(const model::Node& node,
                                                              const ContainerSettings& settings);

// Ready for use. Where there is no driver for containers the log says so, and a slice that is asked
// for later says so again.
[[nodiscard]] std::unique_ptr<inject::ContainerDevices> make_container_devices(
    const model::Node& node, const ContainerSettings& settings);

}  // namespace divvy
