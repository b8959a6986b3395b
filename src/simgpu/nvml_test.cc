// The simulated libnvidia-ml.so.1: the library itself, identity, modes and readings.
#include <cstring>
#include <thread>

#include "simgpu/fault.h"
#include "simgpu/nvml_fixture.h"

namespace divvy::simgpu {
namespace {

using NvmlTest = NvmlFixture;

TEST_F(NvmlTest, AnswersNothingBeforeInit) {
  start("1");
  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvmlDeviceGetTemperature(nullptr, NVML_TEMPERATURE_GPU, &count),
            NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

TEST_F(NvmlTest, CountsItsUsers) {
  start("3");
  ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS);
  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
}

TEST_F(NvmlTest, FollowsTheEnvironmentToAnotherState) {
  start_nvml("1");
  ASSERT_EQ(nvmlShutdown(), NVML_SUCCESS);
  start_nvml("2");
  unsigned int count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 2U);
}

TEST_F(NvmlTest, SaysThatThereIsNoDriverWhenTheConfigurationIsWrong) {
  setenv("DIVVY_SIM_STATE", (path() + ".none").c_str(), 1);
  setenv("DIVVY_SIM_GPUS", "4xNothing", 1);
  unsetenv("DIVVY_SIM_CONFIG");
  EXPECT_EQ(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
}

TEST_F(NvmlTest, TellsItsVersions) {
  start_nvml("1");
  char text[80];
  ASSERT_EQ(nvmlSystemGetDriverVersion(text, sizeof(text)), NVML_SUCCESS);
  EXPECT_STREQ(text, "580.159.04");
  EXPECT_EQ(nvmlSystemGetDriverVersion(text, 10), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(nvmlSystemGetDriverVersion(text, 11), NVML_SUCCESS);
  ASSERT_EQ(nvmlSystemGetNVMLVersion(text, sizeof(text)), NVML_SUCCESS);
  EXPECT_STREQ(text, "13.580.159.04");
  int cuda = 0;
  EXPECT_EQ(nvmlSystemGetCudaDriverVersion_v2(&cuda), NVML_SUCCESS);
  EXPECT_EQ(cuda, 13000);
}

TEST_F(NvmlTest, FindsADeviceByEachOfItsNames) {
  start_nvml("2");
  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
  char serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];
  nvmlPciInfo_t pci{};
  ASSERT_EQ(nvmlDeviceGetUUID(device(1), uuid, sizeof(uuid)), NVML_SUCCESS);
  ASSERT_EQ(nvmlDeviceGetSerial(device(1), serial, sizeof(serial)), NVML_SUCCESS);
  ASSERT_EQ(nvmlDeviceGetPciInfo_v3(device(1), &pci), NVML_SUCCESS);
  EXPECT_STREQ(pci.busId, "00000000:2A:00.0");
  EXPECT_STREQ(pci.busIdLegacy, "0000:2A:00.0");
  EXPECT_EQ(pci.bus, 0x2AU);
  EXPECT_EQ(pci.pciDeviceId, 0x233510DEU);

  nvmlDevice_t found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(uuid, &found), NVML_SUCCESS);
  EXPECT_EQ(found, device(1));
  EXPECT_EQ(nvmlDeviceGetHandleBySerial(serial, &found), NVML_SUCCESS);
  EXPECT_EQ(found, device(1));
  for (const char* address : {"00000000:2A:00.0", "0000:2a:00.0", "2A:00.0"}) {
    found = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(address, &found), NVML_SUCCESS) << address;
    EXPECT_EQ(found, device(1)) << address;
  }
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-none", &found), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(nullptr, &found), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(2, &found), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlTest, OldPciCallsWriteNoMoreThanTheirStructHad) {
  start_nvml("1");
  nvmlPciInfo_t pci{};
  memset(static_cast<void*>(&pci), 0x5A, sizeof(pci));
  ASSERT_EQ(nvmlDeviceGetPciInfo_v2(device(0), &pci), NVML_SUCCESS);
  EXPECT_EQ(pci.bus, 0x18U);
  EXPECT_EQ(pci.busId[0], 0x5A);
}

TEST_F(NvmlTest, SaysWhatTheDeviceIs) {
  start_nvml("1xH200,1xT4");
  char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
  ASSERT_EQ(nvmlDeviceGetName(device(0), name, sizeof(name)), NVML_SUCCESS);
  EXPECT_STREQ(name, "NVIDIA H200");
  EXPECT_EQ(nvmlDeviceGetName(device(0), name, 4), NVML_ERROR_INSUFFICIENT_SIZE);
  int major_version = 0;
  int minor_version = 0;
  EXPECT_EQ(nvmlDeviceGetCudaComputeCapability(device(1), &major_version, &minor_version),
            NVML_SUCCESS);
  EXPECT_EQ(major_version * 10 + minor_version, 75);
  unsigned int number = 0;
  EXPECT_EQ(nvmlDeviceGetNumGpuCores(device(0), &number), NVML_SUCCESS);
  EXPECT_EQ(number, 16896U);
  EXPECT_EQ(nvmlDeviceGetMinorNumber(device(1), &number), NVML_SUCCESS);
  EXPECT_EQ(number, 1U);
}

TEST_F(NvmlTest, RefusesWhatAModelDoesNotHave) {
  start_nvml("1xH200,1xT4");
  unsigned int a = 0;
  unsigned int b = 0;
  EXPECT_EQ(nvmlDeviceGetFanSpeed(device(0), &a), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(nvmlDeviceGetMigMode(device(0), &a, &b), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetMigMode(device(1), &a, &b), NVML_ERROR_NOT_SUPPORTED);
  nvmlGpmSupport_t gpm{.version = NVML_GPM_SUPPORT_VERSION, .isSupportedDevice = 9};
  EXPECT_EQ(nvmlGpmQueryDeviceSupport(device(1), &gpm), NVML_SUCCESS);
  EXPECT_EQ(gpm.isSupportedDevice, 0U);
  nvmlSetMemoryLimits_v1_t limits{};
  EXPECT_EQ(nvmlDeviceSetMemoryLimits_v1(device(0), &limits), NVML_ERROR_FUNCTION_NOT_FOUND);
}

TEST_F(NvmlTest, RefusesNullsAndStrangeHandles) {
  start_nvml("1");
  int strange = 0;
  unsigned int number = 0;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(reinterpret_cast<nvmlDevice_t>(&strange), &number),
            NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(0), nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(nullptr, &number), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetName(device(0), nullptr, 10), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlTest, ShowsTheReadingsOfAnIdleGpu) {
  start_nvml("1");
  unsigned int number = 0;
  EXPECT_EQ(nvmlDeviceGetTemperature(device(0), NVML_TEMPERATURE_GPU, &number), NVML_SUCCESS);
  EXPECT_EQ(number, 30U);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(0), &number), NVML_SUCCESS);
  EXPECT_EQ(number, 75'000U);
  EXPECT_EQ(nvmlDeviceGetClockInfo(device(0), NVML_CLOCK_SM, &number), NVML_SUCCESS);
  EXPECT_EQ(number, 345U);
  EXPECT_EQ(nvmlDeviceGetMaxClockInfo(device(0), NVML_CLOCK_SM, &number), NVML_SUCCESS);
  EXPECT_EQ(number, 1980U);
  nvmlUtilization_t use{.gpu = 9, .memory = 9};
  EXPECT_EQ(nvmlDeviceGetUtilizationRates(device(0), &use), NVML_SUCCESS);
  EXPECT_EQ(use.gpu, 0U);
  nvmlTemperature_t versioned{
      .version = nvmlTemperature_v1, .sensorType = NVML_TEMPERATURE_GPU, .temperature = 0};
  EXPECT_EQ(nvmlDeviceGetTemperatureV(device(0), &versioned), NVML_SUCCESS);
  EXPECT_EQ(versioned.temperature, 30);
  versioned.version = 7;
  EXPECT_EQ(nvmlDeviceGetTemperatureV(device(0), &versioned), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST_F(NvmlTest, OnlyRootChangesSettings) {
  start_nvml("1");
  const nvmlReturn_t expected = geteuid() == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
  EXPECT_EQ(nvmlDeviceSetPowerManagementLimit(device(0), 400'000), expected);
  EXPECT_EQ(nvmlDeviceSetComputeMode(device(0), NVML_COMPUTEMODE_EXCLUSIVE_PROCESS), expected);
  EXPECT_EQ(nvmlDeviceSetGpuLockedClocks(device(0), 1000, 1200), expected);
  EXPECT_EQ(nvmlDeviceSetPowerManagementLimit(device(0), 1), NVML_ERROR_INVALID_ARGUMENT);
  if (geteuid() != 0) return;
  unsigned int number = 0;
  EXPECT_EQ(nvmlDeviceGetPowerManagementLimit(device(0), &number), NVML_SUCCESS);
  EXPECT_EQ(number, 400'000U);
  EXPECT_EQ(nvmlDeviceGetClockInfo(device(0), NVML_CLOCK_SM, &number), NVML_SUCCESS);
  EXPECT_EQ(number, 1000U);
  nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
  EXPECT_EQ(nvmlDeviceGetComputeMode(device(0), &mode), NVML_SUCCESS);
  EXPECT_EQ(mode, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
}

TEST_F(NvmlTest, ALostGpuAnswersNothingAndItsNeighbourEverything) {
  start_nvml("2");
  const nvmlDevice_t lost = device(0);
  lose_gpu(state(), 0);
  unsigned int number = 0;
  nvmlDevice_t handle = nullptr;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(lost, &number), NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &handle), NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(gpu(0).spec.uuid, &handle), NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(1), &number), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&number), NVML_SUCCESS);
  EXPECT_EQ(number, 2U);
  restore_gpu(state(), 0);
  EXPECT_EQ(nvmlDeviceGetPowerUsage(lost, &number), NVML_SUCCESS);
}

TEST_F(NvmlTest, ACallAboutAHungGpuReturnsWhenItIsLetGo) {
  start_nvml("2");
  const nvmlDevice_t hung = device(0);
  hang_gpu(state(), 0);
  nvmlReturn_t result = NVML_ERROR_UNKNOWN;
  std::thread caller([&] {
    unsigned int number = 0;
    result = nvmlDeviceGetPowerUsage(hung, &number);
  });
  unsigned int number = 0;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(1), &number), NVML_SUCCESS);
  unhang_gpu(state(), 0);
  caller.join();
  EXPECT_EQ(result, NVML_SUCCESS);
}

TEST_F(NvmlTest, OnlyTheDeniedClassFails) {
  start_nvml("1");
  fail_queries(state(), 0, QueryClass::kPower, NVML_ERROR_NO_PERMISSION);
  unsigned int number = 0;
  EXPECT_EQ(nvmlDeviceGetPowerUsage(device(0), &number), NVML_ERROR_NO_PERMISSION);
  EXPECT_EQ(nvmlDeviceGetTemperature(device(0), NVML_TEMPERATURE_GPU, &number), NVML_SUCCESS);
  nvmlFieldValue_t field{};
  field.fieldId = NVML_FI_DEV_POWER_INSTANT;
  EXPECT_EQ(nvmlDeviceGetFieldValues(device(0), 1, &field), NVML_SUCCESS);
  EXPECT_EQ(field.nvmlReturn, NVML_ERROR_NO_PERMISSION);
}

TEST_F(NvmlTest, FieldValuesAnswerOneByOne) {
  start_nvml("1");
  inject_corrected_ecc(state(), 0, 7);
  nvmlFieldValue_t fields[3] = {};
  fields[0].fieldId = NVML_FI_DEV_ECC_SBE_VOL_TOTAL;
  fields[1].fieldId = 99'999;
  fields[2].fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT;
  ASSERT_EQ(nvmlDeviceGetFieldValues(device(0), 3, fields), NVML_SUCCESS);
  EXPECT_EQ(fields[0].nvmlReturn, NVML_SUCCESS);
  EXPECT_EQ(fields[0].value.ullVal, 7U);
  EXPECT_EQ(fields[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(fields[2].value.uiVal, 18U);
}

TEST_F(NvmlTest, NamesItsErrors) {
  EXPECT_STREQ(nvmlErrorString(NVML_SUCCESS), "Success");
  EXPECT_STREQ(nvmlErrorString(static_cast<nvmlReturn_t>(12345)), "Unknown Error");
}

TEST_F(NvmlTest, StandsInitAndShutdownWhileOthersAsk) {
  start_nvml("1");
  const nvmlDevice_t handle = device(0);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        if (t == 0) {
          EXPECT_EQ(nvmlInit_v2(), NVML_SUCCESS);
          EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS);
        }
        nvmlMemory_t memory{};
        EXPECT_EQ(nvmlDeviceGetMemoryInfo(handle, &memory), NVML_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace divvy::simgpu
