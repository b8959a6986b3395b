// PCI addresses in the forms that NVML's versions hand out. Internal to libnvidia-ml.so.1; pure.
#pragma once

#include <cstddef>

#include "abi/nvml.h"

namespace divvy::simgpu {

// The struct has grown over the versions of the library, and each entry point may write only as
// much as the struct of its day had, or it would write past the caller's variable.
enum class PciLayout : size_t {
  kV1 = offsetof(nvmlPciInfo_t, pciSubSystemId),
  kV2 = offsetof(nvmlPciInfo_t, busId),
  kV3 = sizeof(nvmlPciInfo_t),
};

// `address` as in GpuSpec::pci.
nvmlPciInfo_t pci_info(const char* address, unsigned int device_id, unsigned int subsystem_id);
void give_pci_info(const nvmlPciInfo_t& info, nvmlPciInfo_t* to, PciLayout layout);

}  // namespace divvy::simgpu
