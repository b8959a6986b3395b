#include "model/node.h"

#include <gtest/gtest.h>

#include "model/testing.h"

namespace divvy::model {
namespace {

Gpu gpu(std::uint32_t index) {
  Gpu gpu;
  gpu.index = GpuIndex(index);
  gpu.uuid = test_uuid(index);
  gpu.pci = *PciAddress::create(0, index, 0, 0);
  return gpu;
}

Node::Parts two_gpus() {
  Node::Parts parts;
  parts.hostname = "node-a";
  parts.gpus = {gpu(0), gpu(1)};
  parts.topology = Topology(2);
  return parts;
}

TEST(Node, AcceptsConsistentGpusAndTopology) {
  const auto node = Node::create(two_gpus());
  ASSERT_TRUE(node.has_value()) << node.error().message;
  EXPECT_EQ(node->hostname(), "node-a");
  EXPECT_EQ(node->find(test_uuid(1)), 1U);
  EXPECT_EQ(node->find(test_uuid(9)), std::nullopt);
}

TEST(Node, MayHaveNoGpu) {
  Node::Parts parts;
  parts.hostname = "node-a";
  EXPECT_TRUE(Node::create(parts).has_value());
}

TEST(Node, RefusesDuplicateIndexUuidOrPciAddress) {
  auto same_index = two_gpus();
  same_index.gpus[1].index = GpuIndex(0);
  EXPECT_EQ(Node::create(same_index).error().message, "node node-a has two GPUs with the index 0");
  auto same_uuid = two_gpus();
  same_uuid.gpus[1].uuid = test_uuid(0);
  EXPECT_FALSE(Node::create(same_uuid).has_value());
  auto same_pci = two_gpus();
  same_pci.gpus[1].pci = same_pci.gpus[0].pci;
  EXPECT_FALSE(Node::create(same_pci).has_value());
}

TEST(Node, KeepsGpusThatDidNotTellTheirUuid) {
  auto parts = two_gpus();
  for (Gpu& each : parts.gpus) {
    each.uuid.reset();
    each.pci.reset();
  }
  EXPECT_TRUE(Node::create(parts).has_value());
}

TEST(Node, RefusesATopologyOfAnotherSize) {
  auto parts = two_gpus();
  parts.topology = Topology(3);
  EXPECT_FALSE(Node::create(parts).has_value());
  parts = two_gpus();
  parts.hostname.clear();
  EXPECT_FALSE(Node::create(parts).has_value());
}

TEST(CudaVersion, ComesFromTheDriversNumber) {
  EXPECT_EQ(to_string(CudaVersion::from_driver_number(13000)), "13.0");
  EXPECT_EQ(to_string(CudaVersion::from_driver_number(12040)), "12.4");
  EXPECT_LT(CudaVersion::from_driver_number(12080), CudaVersion::from_driver_number(13000));
}

}  // namespace
}  // namespace divvy::model
