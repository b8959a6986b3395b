// What the devices for containers are made of: where the driver, the shim and the CDI folders are
// on this machine. Composition shared by `divvy` and `divvyd`.
#pragma once

#include <filesystem>

#include "model/node.h"
#include "node/container_devices.h"

namespace divvy {

struct ContainerFolders {
  std::filesystem::path run;
  std::filesystem::path state;  // Empty: nothing will be written
  std::filesystem::path cdi;    // Empty: the default
};

// Root's own daemon tells every runtime of the machine: /etc/cdi for GPUs, /var/run/cdi for slices,
// which do not outlast it. Simulated GPUs leave nothing in /etc. Every other daemon writes into its
// run folder, for runtimes that are told to look there.
[[nodiscard]] node::ContainerDevices::Parts container_parts(const model::Node& node,
                                                            const ContainerFolders& folders);

}  // namespace divvy
