// NVML inside a tenant: its slices are the devices, its processes the only ones.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/tenant_fixture.h"

namespace divvy::shim {
namespace {

constexpr uint64_t kLimit = 8 * kGiB;

pid_t start_stranger() {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  execl(GPULOAD_PROGRAM, "gpuload", "alloc", "--family", "plain", "--chunk", "64MiB", "--limit",
        "64MiB", "--hold-seconds", "600", "--quiet", nullptr);
  _exit(127);
}

TEST(TenantNvml, CountsAndNumbersOnlyItsSlices) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}, .gpus = {1}});
  const Nvml nvml;
  ASSERT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
  unsigned count = 0;
  EXPECT_EQ(nvml.nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 1U);
  nvmlDevice_t device = nullptr;
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(1, &device), NVML_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  unsigned index = 9;
  EXPECT_EQ(nvml.nvmlDeviceGetIndex(device, &index), NVML_SUCCESS);
  EXPECT_EQ(index, 0U);
  unsigned minor = 9;
  EXPECT_EQ(nvml.nvmlDeviceGetMinorNumber(device, &minor), NVML_SUCCESS);
  EXPECT_EQ(minor, 1U) << "the device file is the host's";

  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = {};
  nvmlPciInfo_t pci{};
  nvmlDevice_t again = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetUUID(device, uuid, sizeof uuid), NVML_SUCCESS);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByUUID(uuid, &again), NVML_SUCCESS);
  ASSERT_EQ(nvml.nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
  EXPECT_EQ(nvml.nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &again), NVML_SUCCESS);
  EXPECT_EQ(again, device);

  // The other GPU is there, and not for this tenant.
  unsigned near = 8;
  nvmlDevice_t others[8];
  EXPECT_EQ(nvml.nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_SYSTEM, &near, others),
            NVML_SUCCESS);
  EXPECT_EQ(near, 0U);
}

TEST(TenantNvml, ShowsTheSlicesMemoryLikeCuda) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cu.cuMemAlloc_v2(&pointer, kGiB), CUDA_SUCCESS);
  const Nvml nvml;
  ASSERT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
  nvmlDevice_t device = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  nvmlMemory_t memory{};
  ASSERT_EQ(nvml.nvmlDeviceGetMemoryInfo(device, &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.total, kLimit);
  EXPECT_EQ(memory.free, cu.free_bytes());
  EXPECT_EQ(memory.used, memory.total - memory.free);
  nvmlMemory_v2_t memory_v2{};
  memory_v2.version = nvmlMemory_v2;
  ASSERT_EQ(nvml.nvmlDeviceGetMemoryInfo_v2(device, &memory_v2), NVML_SUCCESS);
  EXPECT_EQ(memory_v2.total, kLimit);
  EXPECT_EQ(memory_v2.free, memory.free);
  nvmlBAR1Memory_t window{};
  ASSERT_EQ(nvml.nvmlDeviceGetBAR1MemoryInfo(device, &window), NVML_SUCCESS);
  EXPECT_LE(window.bar1Total, kLimit);
  EXPECT_EQ(memory.used, nvml.own_bytes()) << "the account and the driver agree";
}

TEST(TenantNvml, ListsOnlyItsOwnProcesses) {
  if (!inside_tenant()) {
    // Two of its own, and a stranger on the same GPU, outside of any tenant.
    pid_t stranger = -1;
    return run_as_tenant({.limits = {kLimit},
                          .before =
                              [&](FakeDaemon&) {
                                stranger = start_stranger();
                                uint64_t bytes = 0;
                                while (!held_by(stranger, 0, &bytes)) sched_yield();
                              },
                          .after =
                              [&](FakeDaemon&) {
                                kill(stranger, SIGKILL);
                                waitpid(stranger, nullptr, 0);
                              },
                          .processes = 2});
  }
  const Cuda cu;
  cu.begin();
  const Nvml nvml;
  ASSERT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
  nvmlDevice_t device = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  unsigned count = 0;
  const nvmlReturn_t none = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, nullptr);
  EXPECT_EQ(none, NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_GE(count, 1U);
  count = 16;
  nvmlProcessInfo_t list[16];
  ASSERT_EQ(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, list), NVML_SUCCESS);
  EXPECT_LE(count, 2U) << "the stranger shows";
  bool found = false;
  for (unsigned i = 0; i < count; ++i) {
    found = found || list[i].pid == static_cast<unsigned>(getpid());
  }
  EXPECT_TRUE(found);
  nvmlAccountingStats_t stats{};
  EXPECT_EQ(nvml.nvmlDeviceGetAccountingStats(device, 1, &stats), NVML_ERROR_NOT_FOUND);
}

TEST(TenantNvml, RefusesToChangeTheDevice) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Nvml nvml;
  ASSERT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
  nvmlDevice_t device = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  EXPECT_EQ(nvml.nvmlDeviceSetPowerManagementLimit(device, 100000), NVML_ERROR_NO_PERMISSION);
  EXPECT_EQ(nvml.nvmlDeviceSetComputeMode(device, NVML_COMPUTEMODE_PROHIBITED),
            NVML_ERROR_NO_PERMISSION);
  EXPECT_EQ(nvml.nvmlDeviceResetGpuLockedClocks(device), NVML_ERROR_NO_PERMISSION);
}

TEST(TenantNvml, UtilisationIsThatOfTheShare) {
  if (!inside_tenant()) {
    return run_as_tenant({.limits = {kLimit}, .before = [](FakeDaemon& daemon) {
                            daemon.control().gpu[0].share = 300;
                            daemon.control().gpu[0].used_share = 150;
                          }});
  }
  const Nvml nvml;
  ASSERT_EQ(nvml.nvmlInit_v2(), NVML_SUCCESS);
  nvmlDevice_t device = nullptr;
  ASSERT_EQ(nvml.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
  nvmlUtilization_t rates{};
  ASSERT_EQ(nvml.nvmlDeviceGetUtilizationRates(device, &rates), NVML_SUCCESS);
  EXPECT_EQ(rates.gpu, 50U);
}

}  // namespace
}  // namespace divvy::shim
