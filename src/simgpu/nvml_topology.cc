// The simulated NVML: where a GPU sits and what it is joined to.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "simgpu/nvml_call.h"
#include "simgpu/nvml_pci.h"
#include "simgpu/topology.h"

namespace divvy::simgpu {
namespace {

constexpr unsigned int kBitsPerWord = 8 * sizeof(unsigned long);

void set_bit(unsigned long* words, unsigned int count, unsigned int bit) {
  if (bit / kBitsPerWord < count) words[bit / kBitsPerWord] |= 1UL << (bit % kBitsPerWord);
}

// The processors of this machine, dealt out to the simulated NUMA nodes in equal runs. The machine
// itself may have other nodes, or one; the simulated ones are what programs are to see.
void give_processors(const Device& called, unsigned int words, unsigned long* set) {
  memset(set, 0, words * sizeof(unsigned long));
  const auto processors = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  int nodes = 1;
  for (int i = 0; i < called.state.gpu_count(); ++i) {
    nodes = std::max(nodes, called.state.gpu(i).spec.numa_node + 1);
  }
  const int node = called.spec().numa_node;
  const int first = node < 0 ? 0 : processors * node / nodes;
  const int end = node < 0 ? processors : processors * (node + 1) / nodes;
  // With more nodes than processors some would be left with none; they share the last one.
  for (int cpu = std::min(first, processors - 1); cpu < std::max(end, first + 1); ++cpu) {
    set_bit(set, words, static_cast<unsigned int>(cpu));
  }
}

nvmlGpuTopologyLevel_t level(Distance apart) {
  switch (apart) {
    case Distance::kSame:
      return NVML_TOPOLOGY_INTERNAL;
    case Distance::kSwitch:
      return NVML_TOPOLOGY_SINGLE;
    case Distance::kNode:
      return NVML_TOPOLOGY_NODE;
    case Distance::kSystem:
      break;
  }
  return NVML_TOPOLOGY_SYSTEM;
}

nvmlGpuTopologyLevel_t level_between(SharedState& state, int a, int b) {
  return level(distance(state.gpu(a).spec, state.gpu(b).spec, a == b));
}

// Checks the second device of a call about two.
nvmlReturn_t other_device(const Device& called, nvmlDevice_t device, int* index) {
  *index = index_of(device);
  if (*index < 0 || *index >= called.state.gpu_count()) return NVML_ERROR_INVALID_ARGUMENT;
  return gpu_answers(called.state.gpu(*index), kNoClass);
}

// Runs `body` for a link that exists.
template <typename Body>
nvmlReturn_t on_link(nvmlDevice_t device, unsigned int link, const void* to, Body&& body) {
  return on_device(device, QueryClass::kNvlink, {to}, [&](Device& called) {
    if (link >= kMaxLinks) return NVML_ERROR_INVALID_ARGUMENT;
    if (called.spec().link_count == 0) return NVML_ERROR_NOT_SUPPORTED;
    if (link >= called.spec().link_count) return NVML_ERROR_INVALID_ARGUMENT;
    return body(called);
  });
}

// The NVSwitches of a board, by the generation of its links: their number and their kind.
struct Switches {
  unsigned int count;
  unsigned int device_id;
};

Switches switches_of(const GpuSpec& spec) {
  if (spec.link_version <= 3) return {.count = 6, .device_id = 0x1AF110DE};
  if (spec.link_version == 4) return {.count = 4, .device_id = 0x22A310DE};
  return {.count = 2, .device_id = 0x29A310DE};
}

nvmlReturn_t remote_pci(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t* pci,
                        PciLayout layout) {
  return on_link(device, link, pci, [&](Device& called) {
    const GpuSpec& spec = called.spec();
    if (!link_active(spec, link)) return NVML_ERROR_NOT_SUPPORTED;
    if (spec.through_switch != 0) {
      const Switches switches = switches_of(spec);
      char address[20];
      snprintf(address, sizeof(address), "00000000:%02X:00.0", 5 + link % switches.count);
      give_pci_info(pci_info(address, switches.device_id, switches.device_id), pci, layout);
    } else {
      const GpuSpec& peer = called.state.gpu(spec.link_peer[link]).spec;
      give_pci_info(pci_info(peer.pci, peer.pci_device_id, peer.pci_subsystem_id), pci, layout);
    }
    return NVML_SUCCESS;
  });
}

}  // namespace
}  // namespace divvy::simgpu

using divvy::simgpu::Device;
using divvy::simgpu::on_device;
using divvy::simgpu::QueryClass;
namespace sim = divvy::simgpu;

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words,
                                                     unsigned long* nodes,
                                                     nvmlAffinityScope_t scope) {
  return on_device(device, QueryClass::kNuma, {nodes}, [&](Device& called) {
    if (words == 0 || scope > NVML_AFFINITY_SCOPE_SOCKET) return NVML_ERROR_INVALID_ARGUMENT;
    if (called.spec().numa_node < 0) return NVML_ERROR_NOT_SUPPORTED;
    memset(nodes, 0, words * sizeof(unsigned long));
    sim::set_bit(nodes, words, static_cast<unsigned int>(called.spec().numa_node));
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device,
                                                             unsigned int words, unsigned long* set,
                                                             nvmlAffinityScope_t scope) {
  return on_device(device, QueryClass::kNuma, {set}, [&](Device& called) {
    if (words == 0 || scope > NVML_AFFINITY_SCOPE_SOCKET) return NVML_ERROR_INVALID_ARGUMENT;
    sim::give_processors(called, words, set);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words,
                                                  unsigned long* set) {
  return nvmlDeviceGetCpuAffinityWithinScope(device, words, set, NVML_AFFINITY_SCOPE_NODE);
}

// Meant for machines whose GPUs are NUMA nodes themselves; on x86 servers the driver refuses, and
// the node a GPU is near to comes from nvmlDeviceGetMemoryAffinity.
SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int* node) {
  return on_device(device, QueryClass::kNuma, {node},
                   [](Device&) { return NVML_ERROR_NOT_SUPPORTED; });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1,
                                                             nvmlDevice_t device2,
                                                             nvmlGpuTopologyLevel_t* info) {
  return on_device(device1, QueryClass::kPci, {info}, [&](Device& called) {
    int other = 0;
    const nvmlReturn_t result = sim::other_device(called, device2, &other);
    if (result == NVML_SUCCESS) *info = sim::level_between(called.state, called.index, other);
    return result;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device,
                                                          nvmlGpuTopologyLevel_t level,
                                                          unsigned int* count,
                                                          nvmlDevice_t* devices) {
  return on_device(device, QueryClass::kPci, {count}, [&](Device& called) {
    if (level > NVML_TOPOLOGY_SYSTEM || level % 10 != 0) return NVML_ERROR_INVALID_ARGUMENT;
    if (*count > 0 && devices == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    std::vector<nvmlDevice_t> near;
    for (int i = 0; i < called.state.gpu_count(); ++i) {
      if (i == called.index) continue;
      if (sim::level_between(called.state, called.index, i) == level) {
        near.push_back(sim::handle_of(i));
      }
    }
    const auto found = static_cast<unsigned int>(near.size());
    if (*count > 0) std::copy_n(near.begin(), std::min(*count, found), devices);
    *count = *count == 0 ? found : std::min(*count, found);
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
                                                nvmlGpuP2PCapsIndex_t index,
                                                nvmlGpuP2PStatus_t* status) {
  return on_device(device1, QueryClass::kPci, {status}, [&](Device& called) {
    if (index >= NVML_P2P_CAPS_INDEX_UNKNOWN) return NVML_ERROR_INVALID_ARGUMENT;
    int other = 0;
    const nvmlReturn_t result = sim::other_device(called, device2, &other);
    if (result != NVML_SUCCESS) return result;
    const bool linked = sim::links_between(called.shared(), called.index, other) > 0;
    const bool by_link =
        index == NVML_P2P_CAPS_INDEX_NVLINK || index == NVML_P2P_CAPS_INDEX_ATOMICS;
    const bool able = other == called.index ||
                      (by_link ? linked : sim::peers(called.shared(), called.index, other));
    *status = able ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                                  nvmlEnableState_t* active) {
  return sim::on_link(device, link, active, [&](Device& called) {
    const bool up = sim::link_active(called.spec(), link);
    *active = up ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                                    unsigned int* version) {
  return sim::on_link(device, link, version, [&](Device& called) {
    *version = called.spec().link_version;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                                       nvmlNvLinkCapability_t capability,
                                                       unsigned int* result) {
  return sim::on_link(device, link, result, [&](Device& called) {
    if (capability > NVML_NVLINK_CAP_VALID) return NVML_ERROR_INVALID_ARGUMENT;
    const bool up = sim::link_active(called.spec(), link);
    *result = up && capability != NVML_NVLINK_CAP_SLI_BRIDGE ? 1 : 0;
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
                                                          nvmlPciInfo_t* pci) {
  return sim::remote_pci(device, link, pci, sim::PciLayout::kV2);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                             nvmlPciInfo_t* pci) {
  return sim::remote_pci(device, link, pci, sim::PciLayout::kV3);
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                             nvmlIntNvLinkDeviceType_t* type) {
  return sim::on_link(device, link, type, [&](Device& called) {
    if (!sim::link_active(called.spec(), link)) {
      *type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
    } else {
      *type = called.spec().through_switch != 0 ? NVML_NVLINK_DEVICE_TYPE_SWITCH
                                                : NVML_NVLINK_DEVICE_TYPE_GPU;
    }
    return NVML_SUCCESS;
  });
}

SIMGPU_NVML nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                                         nvmlNvLinkErrorCounter_t counter,
                                                         unsigned long long* value) {
  return sim::on_link(device, link, value, [&](Device&) {
    if (counter > NVML_NVLINK_ERROR_DL_ECC_DATA) return NVML_ERROR_INVALID_ARGUMENT;
    *value = 0;
    return NVML_SUCCESS;
  });
}
