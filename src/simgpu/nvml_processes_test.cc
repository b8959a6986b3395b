// The simulated libnvidia-ml.so.1: memory, processes, samples and accounting.
#include <sys/wait.h>

#include "simgpu/manual_clock.h"
#include "simgpu/nvml_fixture.h"

namespace divvy::simgpu {
namespace {

constexpr uint64_t kGiB = 1U << 30U;

class NvmlProcessesTest : public NvmlFixture {
 protected:
  // A full bucket of GPU time for this process, on the manual clock.
  void work(int slot) {
    const uint64_t now = now_ns(state().shared()) / kBucketNs * kBucketNs;
    add_busy(gpu(0).buckets, now, now + kBucketNs);
    add_busy(state().shared().slot[slot].gpu[0].buckets, now, now + kBucketNs);
    gpu(0).busy_ns.fetch_add(kBucketNs);
    std::string error;
    ASSERT_TRUE(advance_manual_clock(state(), kBucketNs, &error)) << error;
  }
};

constexpr const char* kManual = "clock: manual\ngpus: [{model: H200}]\n";

TEST_F(NvmlProcessesTest, TheFirstMemoryCallCountsTheReserveAsUsedTheSecondDoesNot) {
  start_nvml("1");
  hold(0, 10 * kGiB);
  const GpuSpec& spec = gpu(0).spec;
  nvmlMemory_t first{};
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(device(0), &first), NVML_SUCCESS);
  EXPECT_EQ(first.total, spec.memory_bytes);
  EXPECT_EQ(first.used, spec.reserved_bytes + 10 * kGiB);
  EXPECT_EQ(first.free, first.total - first.used);
  nvmlMemory_v2_t second{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &second), NVML_ERROR_FUNCTION_NOT_FOUND);
  second.version = nvmlMemory_v2;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &second), NVML_SUCCESS);
  EXPECT_EQ(second.reserved, spec.reserved_bytes);
  EXPECT_EQ(second.used, 10 * kGiB);
  EXPECT_EQ(second.free, first.free);
}

TEST_F(NvmlProcessesTest, ListsProcessesAsNvmlListsThings) {
  start_nvml("2");
  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, nullptr), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
  hold(0, kGiB);
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, nullptr),
            NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 1U);
  nvmlProcessInfo_t infos[4] = {};
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, nullptr),
            NVML_ERROR_INVALID_ARGUMENT);
  count = 4;
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, infos), NVML_SUCCESS);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(infos[0].pid, static_cast<unsigned int>(getpid()));
  EXPECT_EQ(infos[0].usedGpuMemory, kGiB);
  EXPECT_EQ(infos[0].gpuInstanceId, 0xFFFFFFFFU);
  count = 4;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(1), &count, infos), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
  count = 4;
  EXPECT_EQ(nvmlDeviceGetGraphicsRunningProcesses_v3(device(0), &count, infos), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
}

TEST_F(NvmlProcessesTest, TheOldListHasTheOldEntries) {
  start_nvml("1");
  hold(0, kGiB);
  nvmlProcessInfo_v1_t infos[2] = {};
  unsigned int count = 2;
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses(device(0), &count, infos), NVML_SUCCESS);
  EXPECT_EQ(infos[0].usedGpuMemory, kGiB);
  EXPECT_EQ(infos[1].pid, 0U);
}

TEST_F(NvmlProcessesTest, DetailsNeedHopper) {
  start_nvml("1xH200,1xA100-40GB");
  hold(0, kGiB);
  nvmlProcessDetail_v1_t details[2] = {};
  nvmlProcessDetailList_t list{.version = nvmlProcessDetailList_v1,
                               .mode = 0,
                               .numProcArrayEntries = 2,
                               .procArray = details};
  EXPECT_EQ(nvmlDeviceGetRunningProcessDetailList(device(0), &list), NVML_SUCCESS);
  EXPECT_EQ(list.numProcArrayEntries, 1U);
  EXPECT_EQ(details[0].usedGpuMemory, kGiB);
  EXPECT_EQ(nvmlDeviceGetRunningProcessDetailList(device(1), &list), NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlProcessesTest, AProcessThatWasKilledHoldsNothing) {
  start_nvml("1");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    hold(0, 100 * kGiB);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  nvmlMemory_v2_t memory{};
  memory.version = nvmlMemory_v2;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.used, 100 * kGiB);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(device(0), &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.used, 0U);
  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device(0), &count, nullptr), NVML_SUCCESS);
  EXPECT_EQ(count, 0U);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(NvmlProcessesTest, ProcessUtilisationNamesWhoWorked) {
  start_nvml_yaml(kManual);
  const int slot = hold(0, kGiB);
  unsigned int count = 8;
  nvmlProcessUtilizationSample_t samples[8] = {};
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), samples, &count, 0), NVML_ERROR_NOT_FOUND);
  work(slot);
  count = 0;
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), nullptr, &count, 0),
            NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 1U);
  ASSERT_EQ(nvmlDeviceGetProcessUtilization(device(0), samples, &count, 0), NVML_SUCCESS);
  EXPECT_EQ(samples[0].pid, static_cast<unsigned int>(getpid()));
  EXPECT_GT(samples[0].smUtil, 0U);
  // Nothing new since that sample.
  EXPECT_EQ(nvmlDeviceGetProcessUtilization(device(0), samples, &count, samples[0].timeStamp),
            NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlProcessesTest, SamplesShowTheLastSecond) {
  start_nvml_yaml(kManual);
  work(hold(0, kGiB));
  nvmlValueType_t type = NVML_VALUE_TYPE_DOUBLE;
  unsigned int count = 0;
  ASSERT_EQ(
      nvmlDeviceGetSamples(device(0), NVML_GPU_UTILIZATION_SAMPLES, 0, &type, &count, nullptr),
      NVML_SUCCESS);
  ASSERT_GT(count, 1U);
  std::vector<nvmlSample_t> samples(count);
  ASSERT_EQ(nvmlDeviceGetSamples(device(0), NVML_GPU_UTILIZATION_SAMPLES, 0, &type, &count,
                                 samples.data()),
            NVML_SUCCESS);
  EXPECT_EQ(type, NVML_VALUE_TYPE_UNSIGNED_INT);
  EXPECT_EQ(samples.back().sampleValue.uiVal, 100U);
  EXPECT_EQ(samples.front().sampleValue.uiVal, 0U);
  EXPECT_EQ(nvmlDeviceGetSamples(device(0), NVML_GPU_UTILIZATION_SAMPLES, samples.back().timeStamp,
                                 &type, &count, samples.data()),
            NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlProcessesTest, PerformanceMonitoringComparesTwoSamples) {
  start_nvml_yaml(kManual);
  nvmlGpmSample_t before = nullptr;
  nvmlGpmSample_t after = nullptr;
  ASSERT_EQ(nvmlGpmSampleAlloc(&before), NVML_SUCCESS);
  ASSERT_EQ(nvmlGpmSampleAlloc(&after), NVML_SUCCESS);
  ASSERT_EQ(nvmlGpmSampleGet(device(0), before), NVML_SUCCESS);
  work(hold(0, kGiB));
  gpu(0).pcie_received_bytes.fetch_add(kGiB);
  ASSERT_EQ(nvmlGpmSampleGet(device(0), after), NVML_SUCCESS);
  auto request = std::make_unique<nvmlGpmMetricsGet_t>();
  request->version = NVML_GPM_METRICS_GET_VERSION;
  request->numMetrics = 4;
  request->sample1 = before;
  request->sample2 = after;
  request->metrics[0].metricId = NVML_GPM_METRIC_SM_UTIL;
  request->metrics[1].metricId = 400;
  request->metrics[2].metricId = NVML_GPM_METRIC_PCIE_TX_PER_SEC;
  request->metrics[3].metricId = NVML_GPM_METRIC_PCIE_RX_PER_SEC;
  ASSERT_EQ(nvmlGpmMetricsGet(request.get()), NVML_SUCCESS);
  EXPECT_EQ(request->metrics[0].nvmlReturn, NVML_SUCCESS);
  EXPECT_DOUBLE_EQ(request->metrics[0].value, 100.0);
  EXPECT_EQ(request->metrics[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
  EXPECT_DOUBLE_EQ(request->metrics[2].value, 0.0);
  EXPECT_GT(request->metrics[3].value, 0.0);
  EXPECT_EQ(nvmlGpmSampleFree(before), NVML_SUCCESS);
  EXPECT_EQ(nvmlGpmSampleFree(after), NVML_SUCCESS);
}

TEST_F(NvmlProcessesTest, AccountingHasToBeTurnedOn) {
  start_nvml("1");
  hold(0, kGiB);
  unsigned int count = 8;
  unsigned int pids[8] = {};
  EXPECT_EQ(nvmlDeviceGetAccountingPids(device(0), &count, pids), NVML_ERROR_NOT_SUPPORTED);
  if (geteuid() != 0) GTEST_SKIP() << "turning it on needs root";
  ASSERT_EQ(nvmlDeviceSetAccountingMode(device(0), NVML_FEATURE_ENABLED), NVML_SUCCESS);
  count = 8;
  ASSERT_EQ(nvmlDeviceGetAccountingPids(device(0), &count, pids), NVML_SUCCESS);
  ASSERT_EQ(count, 1U);
  nvmlAccountingStats_t stats{};
  ASSERT_EQ(nvmlDeviceGetAccountingStats(device(0), pids[0], &stats), NVML_SUCCESS);
  EXPECT_EQ(stats.maxMemoryUsage, kGiB);
  EXPECT_EQ(stats.isRunning, 1U);
  EXPECT_EQ(nvmlDeviceGetAccountingStats(device(0), 1, &stats), NVML_ERROR_NOT_FOUND);
}

}  // namespace
}  // namespace divvy::simgpu
