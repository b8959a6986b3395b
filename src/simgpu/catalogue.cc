#include "simgpu/catalogue.h"

#include <stdio.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "simgpu/config.h"

namespace divvy::simgpu {
namespace {

constexpr uint64_t kMiB = 1U << 20U;
constexpr uint64_t kGigabyteS = 1'000'000'000;

// The link rates are what a copy reaches in practice, below the figure on the box.
constexpr uint64_t kPcie3 = 12 * kGigabyteS;
constexpr uint64_t kPcie4 = 25 * kGigabyteS;
constexpr uint64_t kPcie5 = 55 * kGigabyteS;

struct Model {
  const char* key;
  const char* name;  // what the driver calls it
  uint32_t device_id;
  uint64_t memory_mib;    // NVML's total, ECC already taken off
  uint64_t reserved_kib;  // the driver's own part of it
  uint64_t context_mib;
  uint64_t bandwidth_gb_s;
  uint32_t sms;
  uint32_t cores_per_sm;
  uint32_t major;
  uint32_t minor;
  uint32_t clock_mhz;
  uint32_t memory_clock_mhz;
  uint32_t bus_bits;
  uint32_t l2_mib;
  uint32_t power_w;
  uint32_t idle_w;
  uint32_t slowdown_c;
  uint32_t shutdown_c;
  uint32_t pcie_gen;
  uint32_t architecture;
  Fabric fabric;
  uint32_t links;
  uint32_t link_version;
  const char* vbios;
};

// One line for the names and one for the numbers, in the order of Model's members.
// clang-format off
constexpr Model kModels[] = {
    //PCI id  memory   res   ctx  GB/s  SMs  per  cc      MHz   mem   bus   L2     W  idle  slow  off  gen  arch
    {"H200", "NVIDIA H200",
     0x2335, 143771,629824, 523, 4800, 132, 128,  9, 0, 1980, 3201, 6016,  60,  700,   75,   87,  92,   5,    9,
     Fabric::kSwitch, 18, 4, "96.00.A5.00.01"},
    {"H100-80GB", "NVIDIA H100 80GB HBM3",
     0x2330,  81559,573440, 520, 3350, 132, 128,  9, 0, 1980, 2619, 5120,  50,  700,   70,   87,  92,   5,    9,
     Fabric::kSwitch, 18, 4, "96.00.89.00.01"},
    {"H100-PCIe", "NVIDIA H100 PCIe",
     0x2331,  81559,573440, 480, 2039, 114, 128,  9, 0, 1755, 1593, 5120,  50,  350,   50,   87,  92,   5,    9,
     Fabric::kBridge, 12, 4, "96.00.4F.00.01"},
    {"A100-40GB", "NVIDIA A100-SXM4-40GB",
     0x20B0,  40960,647168, 420, 1555, 108,  64,  8, 0, 1410, 1215, 5120,  40,  400,   52,   89,  92,   4,    7,
     Fabric::kSwitch, 12, 3, "92.00.19.00.01"},
    {"A100-80GB", "NVIDIA A100-SXM4-80GB",
     0x20B2,  81920,890880, 420, 2039, 108,  64,  8, 0, 1410, 1593, 5120,  40,  400,   60,   89,  92,   4,    7,
     Fabric::kSwitch, 12, 3, "92.00.45.00.03"},
    {"L4", "NVIDIA L4",
     0x27B8,  23034,481280, 260,  300,  58, 128,  8, 9, 2040, 6251,  192,  48,   72,   16,   89,  92,   4,    8,
     Fabric::kNone, 0, 0, "95.04.29.00.06"},
    {"L40S", "NVIDIA L40S",
     0x26B9,  46068,706560, 430,  864, 142, 128,  8, 9, 2520, 9001,  384,  96,  350,   32,   89,  92,   4,    8,
     Fabric::kNone, 0, 0, "95.02.66.00.02"},
    {"A10", "NVIDIA A10",
     0x2236,  23028,527360, 260,  600,  72, 128,  8, 6, 1695, 6251,  384,   6,  150,   20,   92,  95,   4,    7,
     Fabric::kNone, 0, 0, "94.02.75.00.01"},
    {"T4", "Tesla T4",
     0x1EB8,  15360,450560, 105,  320,  40,  64,  7, 5, 1590, 5001,  256,   4,   70,   10,   93,  96,   3,    6,
     Fabric::kNone, 0, 0, "90.04.96.00.01"},
    {"V100-16GB", "Tesla V100-SXM2-16GB",
     0x1DB1,  16384,240640, 305,  900,  80,  64,  7, 0, 1530,  877, 4096,   6,  300,   40,   87,  90,   3,    5,
     Fabric::kMesh, 6, 2, "88.00.4F.00.09"},
    {"V100-32GB", "Tesla V100-SXM2-32GB",
     0x1DB5,  32768,272384, 305,  900,  80,  64,  7, 0, 1530,  877, 4096,   6,  300,   42,   87,  90,   3,    5,
     Fabric::kMesh, 6, 2, "88.00.98.00.02"},
    {"B200", "NVIDIA B200",
     0x2901, 183359,742400, 620, 8000, 148, 128, 10, 0, 1965, 3996, 8192, 126, 1000,  140,   87,  92,   5,   10,
     Fabric::kSwitch, 18, 5, "97.00.6B.00.01"},
};
// clang-format on

std::string lowered(const std::string& text) {
  std::string low = text;
  std::transform(low.begin(), low.end(), low.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return low;
}

// People leave out what there is only one of, and write the driver's name for the model.
constexpr struct {
  const char* name;
  const char* means;
} kAliases[] = {
    {"h100", "H100-80GB"}, {"h100-sxm", "H100-80GB"}, {"a100", "A100-80GB"}, {"v100", "V100-32GB"}};

const Model* model_named(const std::string& name) {
  std::string low = lowered(name);
  for (const auto& alias : kAliases) {
    if (low == alias.name) low = lowered(alias.means);
  }
  for (const Model& model : kModels) {
    if (low == lowered(model.key) || low == lowered(model.name)) return &model;
  }
  return nullptr;
}

}  // namespace

std::optional<GpuSpec> find_model(const std::string& name) {
  const Model* model = model_named(name);
  if (model == nullptr) return std::nullopt;
  GpuSpec spec{};
  snprintf(spec.name, sizeof(spec.name), "%s", model->name);
  snprintf(spec.vbios, sizeof(spec.vbios), "%s", model->vbios);
  spec.memory_bytes = model->memory_mib * kMiB;
  spec.reserved_bytes = model->reserved_kib * 1024;
  spec.context_bytes = model->context_mib * kMiB;
  spec.bandwidth_bytes_s = model->bandwidth_gb_s * kGigabyteS;
  spec.pcie_bytes_s = model->pcie_gen >= 5 ? kPcie5 : model->pcie_gen == 4 ? kPcie4 : kPcie3;
  spec.sm_count = model->sms;
  spec.cores_per_sm = model->cores_per_sm;
  spec.compute_major = model->major;
  spec.compute_minor = model->minor;
  spec.clock_mhz = model->clock_mhz;
  spec.memory_clock_mhz = model->memory_clock_mhz;
  spec.memory_bus_bits = model->bus_bits;
  spec.l2_bytes = static_cast<uint32_t>(model->l2_mib * kMiB);
  spec.power_limit_mw = model->power_w * 1000;
  spec.idle_power_mw = model->idle_w * 1000;
  spec.slowdown_c = model->slowdown_c;
  spec.shutdown_c = model->shutdown_c;
  spec.numa_node = -1;
  spec.pcie_gen = model->pcie_gen;
  spec.pcie_width = 16;
  spec.architecture = model->architecture;
  spec.pci_device_id = model->device_id << 16 | 0x10DE;
  // Boards of one model have various numbers; this is the one seen on an H200.
  spec.pci_subsystem_id = 0x18BF10DE;
  spec.link_count = model->links;
  spec.link_version = static_cast<uint8_t>(model->link_version);
  spec.through_switch = model->fabric == Fabric::kSwitch ? 1 : 0;
  std::fill(std::begin(spec.link_peer), std::end(spec.link_peer), static_cast<int8_t>(-1));
  return spec;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : kModels) names.emplace_back(model.key);
  return names;
}

Fabric fabric_of(const std::string& name) {
  const Model* model = model_named(name);
  return model == nullptr ? Fabric::kNone : model->fabric;
}

size_t spelling_distance(const std::string& a, const std::string& b) {
  const std::string left = lowered(a);
  const std::string right = lowered(b);
  std::vector<size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < left.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < right.size(); ++j) {
      const size_t exchanged = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({exchanged, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace divvy::simgpu
