// Puts GPUs into a machine: gives each its identity, its PCI address, its NUMA node and its
// NVLinks, where the configuration has not said otherwise.
//
// Used while a configuration is read. Pure; callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "simgpu/catalogue.h"
#include "simgpu/shared.h"

namespace divvy::simgpu {

// A GPU on its way into the machine. Empty texts in the spec and kNumaOpen are filled in.
struct PlannedGpu {
  GpuSpec spec;
  Fabric fabric;
};
constexpr int32_t kNumaOpen = INT32_MIN;

// Fills in what is open: UUID and serial number (always the same for the same model at the same
// index), PCI addresses as in servers with eight GPUs, NUMA nodes split in half, and PCIe switches
// that two neighbours of one NUMA node share.
void settle_identities(std::vector<PlannedGpu>& gpus);

// NVLinks as such machines have them: switches and meshes are wired, bridges are not there.
void link_as_usual(std::vector<PlannedGpu>& gpus);
// Every GPU that has NVLinks is joined to the others of its model.
void link_all(std::vector<PlannedGpu>& gpus);
void link_none(std::vector<PlannedGpu>& gpus);
// Joins two GPUs with `count` links. False, with the reason, when they cannot be joined so.
bool link_pair(std::vector<PlannedGpu>& gpus, int a, int b, int count, std::string* error);

}  // namespace divvy::simgpu
