// How two simulated GPUs are joined. Both driver libraries answer from here, so that NVML's view of
// links and CUDA's view of peers agree.
//
// Reads only what is constant after the state was created; callable from any thread.
#pragma once

#include "simgpu/shared.h"

namespace divvy::simgpu {

enum class Distance { kSame, kSwitch, kNode, kSystem };

// The nearest thing that two GPUs have in common: a PCIe switch, a NUMA node, the machine.
Distance distance(const GpuSpec& a, const GpuSpec& b, bool same_gpu);

// Whether a GPU's link leads anywhere: to another GPU or into an NVSwitch.
bool link_active(const GpuSpec& spec, uint32_t link);

// NVLinks that two GPUs can use between them, straight or through NVSwitches.
int links_between(const Shared& shared, int a, int b);

// Whether one may read and write the other's memory, by NVLink or else over PCIe.
bool peers(const Shared& shared, int a, int b);

}  // namespace divvy::simgpu
