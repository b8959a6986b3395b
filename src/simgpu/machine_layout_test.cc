#include "simgpu/machine_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "simgpu/config.h"

namespace divvy::simgpu {
namespace {

std::vector<GpuSpec> machine(const std::string& list) {
  std::string error;
  const auto config = parse_gpu_list(list, &error);
  EXPECT_TRUE(config) << error;
  return config->gpus;
}

TEST(MachineLayout, GivesEveryGpuAnIdentityThatStays) {
  const auto once = machine("16xH200,16xL4");
  const auto again = machine("16xH200,16xL4");
  std::set<std::string> identities;
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_STREQ(once[i].uuid, again[i].uuid);
    EXPECT_EQ(std::string(once[i].uuid).size(), 40U);
    for (const char* identity : {once[i].uuid, once[i].pci, once[i].serial}) {
      EXPECT_TRUE(identities.insert(identity).second) << identity;
    }
  }
  EXPECT_STREQ(once[0].pci, "00000000:18:00.0");
  EXPECT_STREQ(once[8].pci, "00000001:18:00.0");
}

TEST(MachineLayout, SplitsNumaNodesInHalfAndPairsSwitchesInsideThem) {
  const auto four = machine("4xH200");
  const auto nodes = [](const std::vector<GpuSpec>& gpus) {
    std::vector<int> list;
    list.reserve(gpus.size());
    for (const GpuSpec& gpu : gpus) list.push_back(gpu.numa_node);
    return list;
  };
  EXPECT_EQ(nodes(four), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(four[0].pcie_switch, four[1].pcie_switch);
  EXPECT_NE(four[1].pcie_switch, four[2].pcie_switch);
  EXPECT_EQ(nodes(machine("1")), (std::vector<int>{0}));

  const auto two = machine("2xH200");
  EXPECT_EQ(nodes(two), (std::vector<int>{0, 1}));
  EXPECT_NE(two[0].pcie_switch, two[1].pcie_switch);

  const auto six = machine("6xH200");
  EXPECT_EQ(six[0].pcie_switch, six[1].pcie_switch);
  EXPECT_NE(six[1].pcie_switch, six[2].pcie_switch);
  EXPECT_NE(six[2].pcie_switch, six[3].pcie_switch);
}

TEST(MachineLayout, JoinsSwitchedGpusThroughSwitches) {
  for (const GpuSpec& gpu : machine("4xH200")) {
    EXPECT_EQ(gpu.through_switch, 1);
    EXPECT_EQ(gpu.link_peer[0], -1);
  }
}

TEST(MachineLayout, SpendsMeshLinksEvenlyAndBothWays) {
  for (const int count : {2, 3, 4, 5, 8}) {
    const auto gpus = machine(std::to_string(count) + "xV100-16GB");
    for (int a = 0; a < count; ++a) {
      for (int b = 0; b < count; ++b) {
        const auto links = [&](int from, int to) {
          const GpuSpec& spec = gpus[static_cast<size_t>(from)];
          return std::count(spec.link_peer, spec.link_peer + kMaxLinks, to);
        };
        EXPECT_EQ(links(a, b), links(b, a)) << count << ": " << a << "-" << b;
        if (a == b) {
          EXPECT_EQ(links(a, b), 0);
        }
      }
    }
  }
  const auto four = machine("4xV100-16GB");
  EXPECT_EQ(std::count(four[0].link_peer, four[0].link_peer + 6, -1), 0);
}

TEST(MachineLayout, PutsNoBridgeThatNobodyAskedFor) {
  for (const GpuSpec& gpu : machine("2xH100-PCIe")) EXPECT_EQ(gpu.link_peer[0], -1);
}

}  // namespace
}  // namespace divvy::simgpu
