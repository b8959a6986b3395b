// The simulated libnvidia-ml.so.1: NUMA, PCI Express and NVLink.
#include "simgpu/nvml_fixture.h"
#include "simgpu/topology.h"

namespace divvy::simgpu {
namespace {

class NvmlTopologyTest : public NvmlFixture {
 protected:
  nvmlGpuTopologyLevel_t level(unsigned int a, unsigned int b) {
    nvmlGpuTopologyLevel_t found = NVML_TOPOLOGY_SYSTEM;
    EXPECT_EQ(nvmlDeviceGetTopologyCommonAncestor(device(a), device(b), &found), NVML_SUCCESS);
    return found;
  }

  nvmlGpuP2PStatus_t p2p(unsigned int a, unsigned int b, nvmlGpuP2PCapsIndex_t index) {
    nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;
    EXPECT_EQ(nvmlDeviceGetP2PStatus(device(a), device(b), index, &status), NVML_SUCCESS);
    return status;
  }
};

TEST_F(NvmlTopologyTest, TellsHowFarTwoGpusAreApart) {
  start_nvml("8xH200");
  EXPECT_EQ(level(0, 1), NVML_TOPOLOGY_SINGLE);
  EXPECT_EQ(level(0, 2), NVML_TOPOLOGY_NODE);
  EXPECT_EQ(level(0, 4), NVML_TOPOLOGY_SYSTEM);
  EXPECT_EQ(level(4, 0), NVML_TOPOLOGY_SYSTEM);
  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetTopologyNearestGpus(device(0), NVML_TOPOLOGY_NODE, &count, nullptr),
            NVML_SUCCESS);
  EXPECT_EQ(count, 2U);
  nvmlDevice_t near[2] = {};
  EXPECT_EQ(nvmlDeviceGetTopologyNearestGpus(device(0), NVML_TOPOLOGY_NODE, &count, near),
            NVML_SUCCESS);
  EXPECT_EQ(near[0], device(2));
}

TEST_F(NvmlTopologyTest, TellsTheNumaNodeByItsMemory) {
  start_nvml_yaml("gpus: [{model: H200, count: 2, numa: [0, 3]}, {model: L4, numa: -1}]\n");
  unsigned long nodes = 0;
  EXPECT_EQ(nvmlDeviceGetMemoryAffinity(device(1), 1, &nodes, NVML_AFFINITY_SCOPE_NODE),
            NVML_SUCCESS);
  EXPECT_EQ(nodes, 1UL << 3U);
  EXPECT_EQ(nvmlDeviceGetMemoryAffinity(device(2), 1, &nodes, NVML_AFFINITY_SCOPE_NODE),
            NVML_ERROR_NOT_SUPPORTED);
  unsigned int node = 0;
  EXPECT_EQ(nvmlDeviceGetNumaNodeId(device(0), &node), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlTopologyTest, EveryGpuHasProcessorsNearby) {
  start_nvml("4xH200");
  for (unsigned int i = 0; i < 4; ++i) {
    unsigned long set[16] = {};
    ASSERT_EQ(nvmlDeviceGetCpuAffinity(device(i), 16, set), NVML_SUCCESS);
    unsigned long any = 0;
    for (const unsigned long word : set) any |= word;
    EXPECT_NE(any, 0UL) << i;
  }
}

TEST_F(NvmlTopologyTest, LinksOfSwitchedGpusEndInSwitches) {
  start_nvml("2xH200");
  nvmlEnableState_t up = NVML_FEATURE_DISABLED;
  nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
  nvmlPciInfo_t pci{};
  unsigned int version = 0;
  EXPECT_EQ(nvmlDeviceGetNvLinkState(device(0), 17, &up), NVML_SUCCESS);
  EXPECT_EQ(up, NVML_FEATURE_ENABLED);
  EXPECT_EQ(nvmlDeviceGetNvLinkRemoteDeviceType(device(0), 0, &type), NVML_SUCCESS);
  EXPECT_EQ(type, NVML_NVLINK_DEVICE_TYPE_SWITCH);
  EXPECT_EQ(nvmlDeviceGetNvLinkRemotePciInfo_v2(device(0), 0, &pci), NVML_SUCCESS);
  EXPECT_STREQ(pci.busId, "00000000:05:00.0");
  EXPECT_EQ(nvmlDeviceGetNvLinkVersion(device(0), 0, &version), NVML_SUCCESS);
  EXPECT_EQ(version, 4U);
  EXPECT_EQ(nvmlDeviceGetNvLinkState(device(0), 18, &up), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(p2p(0, 1, NVML_P2P_CAPS_INDEX_NVLINK), NVML_P2P_STATUS_OK);
  EXPECT_EQ(links_between(state().shared(), 0, 1), 18);
}

TEST_F(NvmlTopologyTest, LinksOfMeshedGpusEndInGpus) {
  start_nvml("2xV100-16GB");
  nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
  nvmlPciInfo_t pci{};
  EXPECT_EQ(nvmlDeviceGetNvLinkRemoteDeviceType(device(0), 5, &type), NVML_SUCCESS);
  EXPECT_EQ(type, NVML_NVLINK_DEVICE_TYPE_GPU);
  EXPECT_EQ(nvmlDeviceGetNvLinkRemotePciInfo_v2(device(0), 5, &pci), NVML_SUCCESS);
  EXPECT_STREQ(pci.busId, gpu(1).spec.pci);
  EXPECT_EQ(links_between(state().shared(), 0, 1), 6);
}

TEST_F(NvmlTopologyTest, WithoutLinksThereIsOnlyPcie) {
  start_nvml_yaml("gpus: [{model: H200, count: 2}, {model: L4, count: 2}]\nnvlink: none\n");
  nvmlEnableState_t up = NVML_FEATURE_ENABLED;
  nvmlPciInfo_t pci{};
  EXPECT_EQ(nvmlDeviceGetNvLinkState(device(0), 0, &up), NVML_SUCCESS);
  EXPECT_EQ(up, NVML_FEATURE_DISABLED);
  EXPECT_EQ(nvmlDeviceGetNvLinkRemotePciInfo_v2(device(0), 0, &pci), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(nvmlDeviceGetNvLinkState(device(2), 0, &up), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(p2p(0, 1, NVML_P2P_CAPS_INDEX_NVLINK), NVML_P2P_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(p2p(0, 1, NVML_P2P_CAPS_INDEX_READ), NVML_P2P_STATUS_OK);
  EXPECT_EQ(p2p(0, 2, NVML_P2P_CAPS_INDEX_READ), NVML_P2P_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace divvy::simgpu
