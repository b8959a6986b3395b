// What GPUs this machine has and how they are doing, as one model::Node: the first thing `divvyd`
// does and all that `divvy gpus` does. Asks the driver many short questions in turn; callable from
// any thread, as often as wanted.
#pragma once

#include <string>

#include "base/result.h"
#include "model/node.h"
#include "nvml/library.h"

namespace divvy::nvml {

struct InventoryOptions {
  // Where the kernel describes PCI devices.
  std::string pci_devices = "/sys/bus/pci/devices";
  // Empty: ask the kernel.
  std::string hostname;
};

// A question that a GPU does not answer is a FieldProblem of that GPU, which is listed all the same
// with what is known. An error only when the GPUs cannot even be counted.
[[nodiscard]] Result<model::Node> take_inventory(nvml::Library& library,
                                                 const InventoryOptions& options = {});

}  // namespace divvy::nvml
