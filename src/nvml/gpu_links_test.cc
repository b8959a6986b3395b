#include "nvml/gpu_links.h"

#include <gtest/gtest.h>

#include "nvml/fake_library.h"
#include "nvml/inventory.h"

namespace divvy::nvml {
namespace {

using model::Link;
using model::LinkKind;
using nvml::FakeLibrary;
using nvml::Query;

model::Topology topology_of(FakeLibrary& library) {
  auto node = take_inventory(library, {.pci_devices = "/nonexistent", .hostname = "test"});
  EXPECT_TRUE(node.has_value()) << node.error().message;
  return node->topology();
}

TEST(GpuLinks, JoinsGpusBehindSwitchesWithAsManyLinksAsBothHave) {
  FakeLibrary library(3);
  library.connect_through_switch(18);
  library.gpu(2).nvlinks.resize(16);
  const auto topology = topology_of(library);
  EXPECT_EQ(topology.link(0, 1), model::nvlink(18));
  EXPECT_EQ(topology.link(1, 2), model::nvlink(16));
}

TEST(GpuLinks, CountsDirectLinksPerPair) {
  FakeLibrary library(3);
  library.connect_directly(0, 1, 2);
  library.connect_directly(1, 2, 1);
  const auto topology = topology_of(library);
  EXPECT_EQ(topology.link(0, 1), model::nvlink(2));
  EXPECT_EQ(topology.link(1, 2), model::nvlink(1));
  EXPECT_EQ(topology.link(0, 2), (Link{LinkKind::kSys, 0}));
}

TEST(GpuLinks, BelievesTheSideThatAnswers) {
  FakeLibrary library(2);
  library.connect_directly(0, 1, 4);
  library.gpu(0).fail(Query::kNvlinks, NVML_ERROR_UNKNOWN);
  EXPECT_EQ(topology_of(library).link(0, 1), model::nvlink(4));
}

TEST(GpuLinks, NamesPcieDistancesLikeNvidiaSmi) {
  FakeLibrary library(2);
  const std::pair<nvml::Distance, std::string> cases[] = {
      {nvml::Distance::kSameBoard, "PIX"},       {nvml::Distance::kOneSwitch, "PIX"},
      {nvml::Distance::kSeveralSwitches, "PXB"}, {nvml::Distance::kHostBridge, "PHB"},
      {nvml::Distance::kNumaNode, "NODE"},       {nvml::Distance::kSystem, "SYS"},
  };
  for (const auto& [distance, word] : cases) {
    library.set_distance(0, 1, distance);
    EXPECT_EQ(to_string(topology_of(library).link(1, 0)), word);
  }
}

TEST(GpuLinks, LeavesWhatIsNotAnsweredUnknown) {
  FakeLibrary library(3);
  library.gpu(0)
      .fail(Query::kDistance, NVML_ERROR_UNKNOWN)
      .fail(Query::kNearCpus, NVML_ERROR_UNKNOWN);
  library.gpu(2).fail(Query::kHandle, NVML_ERROR_GPU_IS_LOST);
  const auto topology = topology_of(library);
  EXPECT_EQ(topology.link(0, 1).kind, LinkKind::kUnknown);
  EXPECT_EQ(topology.link(1, 2).kind, LinkKind::kUnknown);
  EXPECT_EQ(topology.affinity(0).cpus, "");
  EXPECT_EQ(topology.affinity(1).cpus, "0-3");
}

TEST(GpuLinks, WritesProcessorsAsLinuxDoes) {
  EXPECT_EQ(to_cpu_list({}), "");
  EXPECT_EQ(to_cpu_list({5}), "5");
  EXPECT_EQ(to_cpu_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

}  // namespace
}  // namespace divvy::nvml
