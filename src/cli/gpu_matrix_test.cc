#include <gtest/gtest.h>

#include "cli/gpu_table.h"
#include "cli/testing.h"

namespace divvy::cli {
namespace {

using model::LinkKind;

TEST(GpuMatrix, ShowsConnectionsAndAffinity) {
  auto parts = test_parts(4);
  for (const std::size_t i : {0U, 1U}) {
    for (const std::size_t j : {2U, 3U}) {
      ASSERT_TRUE(parts.topology.set_link(i, j, {LinkKind::kSys, 0}));
    }
  }
  ASSERT_TRUE(parts.topology.set_link(2, 3, {LinkKind::kPix, 0}));
  EXPECT_EQ(gpu_topology_matrix(test_node(parts), test_style()),
            R"(      GPU0  GPU1  GPU2  GPU3  NUMA  CPU AFFINITY
GPU0  X     NV18  SYS   SYS   0     0-31,64-95
GPU1  NV18  X     SYS   SYS   0     0-31,64-95
GPU2  SYS   SYS   X     PIX   1     32-63,96-127
GPU3  SYS   SYS   PIX   X     1     32-63,96-127

  X     the GPU itself
  NV#   # NVLinks, bonded
  PIX   PCIe, through one bridge at most
  SYS   from one NUMA node to another (slowest)
)");
}

TEST(GpuMatrix, ShowsWhatIsNotKnown) {
  auto parts = test_parts(2);
  parts.topology = model::Topology(2);
  parts.gpus[0].numa_node.reset();
  EXPECT_EQ(gpu_topology_matrix(test_node(parts), test_style()),
            R"(      GPU0  GPU1  NUMA  CPU AFFINITY
GPU0  X     ?     –     –
GPU1  ?     X     0     –

  X     the GPU itself
  ?     the driver does not say
)");
}

TEST(GpuMatrix, SaysThatThereIsNoGpu) {
  EXPECT_EQ(gpu_topology_matrix(test_node(test_parts(0)), test_style()),
            "No GPU: the driver 580.159.04 answers, but lists none.\n");
}

}  // namespace
}  // namespace divvy::cli
