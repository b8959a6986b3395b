#include "simgpu/machine_layout.h"

#include <stdio.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace divvy::simgpu {
namespace {

// Bus numbers of the eight GPUs of a common server; a ninth one is put into another PCI domain.
constexpr unsigned kBuses[] = {0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB};

// A small mixing function, so that identities look like identities and never change.
uint64_t mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

uint64_t seed_of(const GpuSpec& spec, size_t index) {
  uint64_t seed = 0xCBF29CE484222325U;
  for (const char* c = spec.name; *c != 0; ++c) {
    seed = (seed ^ static_cast<unsigned char>(*c)) * 0x100000001B3U;
  }
  return mixed(seed + index);
}

void name_gpu(GpuSpec& spec, size_t index) {
  const uint64_t high = seed_of(spec, index);
  const uint64_t low = mixed(high);
  if (spec.uuid[0] == 0) {
    snprintf(spec.uuid, sizeof(spec.uuid), "GPU-%08x-%04x-4%03x-%04x-%012llx",
             static_cast<unsigned>(high >> 32U), static_cast<unsigned>(high >> 16U) & 0xFFFFU,
             static_cast<unsigned>(high) & 0xFFFU,
             (static_cast<unsigned>(low >> 48U) & 0x3FFFU) | 0x8000U,
             static_cast<unsigned long long>(low & 0xFFFFFFFFFFFFU));
  }
  if (spec.serial[0] == 0) {
    snprintf(spec.serial, sizeof(spec.serial), "165%010llu",
             static_cast<unsigned long long>(low % 10'000'000'000U));
  }
  if (spec.pci[0] == 0) {
    snprintf(spec.pci, sizeof(spec.pci), "%08X:%02X:00.0",
             static_cast<unsigned>(index / std::size(kBuses)), kBuses[index % std::size(kBuses)]);
  }
}

int free_link(const GpuSpec& spec) {
  for (uint32_t i = 0; i < spec.link_count; ++i) {
    if (spec.link_peer[i] < 0) return static_cast<int>(i);
  }
  return -1;
}

void connect(std::vector<PlannedGpu>& gpus, int a, int b) {
  GpuSpec& left = gpus[static_cast<size_t>(a)].spec;
  GpuSpec& right = gpus[static_cast<size_t>(b)].spec;
  left.link_peer[free_link(left)] = static_cast<int8_t>(b);
  right.link_peer[free_link(right)] = static_cast<int8_t>(a);
}

// Spends the links of a group of equal GPUs evenly: first every GPU to its next neighbours on a
// ring, then to those two further, and so on, and again from the start while links are left.
void mesh(std::vector<PlannedGpu>& gpus, const std::vector<int>& group) {
  const size_t n = group.size();
  if (n < 2) return;
  uint32_t left = gpus[static_cast<size_t>(group[0])].spec.link_count;
  while (left > 0) {
    bool placed = false;
    for (size_t step = 1; step <= n / 2; ++step) {
      // Half-way round, the neighbour on either side is the same GPU.
      const bool opposite = step * 2 == n;
      const uint32_t cost = opposite ? 1 : 2;
      if (cost > left) continue;
      for (size_t i = 0; i < (opposite ? n / 2 : n); ++i) {
        connect(gpus, group[i], group[(i + step) % n]);
      }
      left -= cost;
      placed = true;
    }
    if (!placed) return;
  }
}

void link_groups(std::vector<PlannedGpu>& gpus, bool bridges) {
  link_none(gpus);
  std::map<std::string, std::vector<int>> meshes;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].fabric == Fabric::kSwitch) gpus[i].spec.through_switch = 1;
    if (gpus[i].fabric == Fabric::kMesh || (bridges && gpus[i].fabric == Fabric::kBridge)) {
      meshes[gpus[i].spec.name].push_back(static_cast<int>(i));
    }
  }
  for (const auto& [name, group] : meshes) mesh(gpus, group);
}

}  // namespace

void settle_identities(std::vector<PlannedGpu>& gpus) {
  std::map<int32_t, uint32_t> on_node;
  std::map<std::pair<int32_t, uint32_t>, uint32_t> switches;
  for (size_t i = 0; i < gpus.size(); ++i) {
    GpuSpec& spec = gpus[i].spec;
    name_gpu(spec, i);
    if (spec.numa_node == kNumaOpen) {
      spec.numa_node = gpus.size() > 1 && i >= (gpus.size() + 1) / 2 ? 1 : 0;
    }
    const uint32_t pair = on_node[spec.numa_node]++ / 2;
    const auto number = static_cast<uint32_t>(switches.size());
    spec.pcie_switch = switches.emplace(std::pair{spec.numa_node, pair}, number).first->second;
  }
}

void link_as_usual(std::vector<PlannedGpu>& gpus) { link_groups(gpus, false); }
void link_all(std::vector<PlannedGpu>& gpus) { link_groups(gpus, true); }

void link_none(std::vector<PlannedGpu>& gpus) {
  for (PlannedGpu& gpu : gpus) {
    gpu.spec.through_switch = 0;
    std::fill(std::begin(gpu.spec.link_peer), std::end(gpu.spec.link_peer),
              static_cast<int8_t>(-1));
  }
}

bool link_pair(std::vector<PlannedGpu>& gpus, int a, int b, int count, std::string* error) {
  const int total = static_cast<int>(gpus.size());
  if (a < 0 || b < 0 || a >= total || b >= total) {
    *error = "there is no GPU " + std::to_string(a < 0 || a >= total ? a : b) + "; the " +
             std::to_string(total) + " GPUs are numbered from 0";
    return false;
  }
  if (a == b) {
    *error = "GPU " + std::to_string(a) + " cannot be linked to itself";
    return false;
  }
  for (int i = 0; i < count; ++i) {
    for (const int side : {a, b}) {
      const GpuSpec& spec = gpus[static_cast<size_t>(side)].spec;
      if (free_link(spec) >= 0) continue;
      *error = "GPU " + std::to_string(side) + " (" + spec.name + ") has only " +
               std::to_string(spec.link_count) + " NVLinks, and this needs more";
      return false;
    }
    connect(gpus, a, b);
  }
  return true;
}

}  // namespace divvy::simgpu
