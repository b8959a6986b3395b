#include "nvml/inventory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"
#include "nvml/fake_library.h"

namespace divvy::nvml {
namespace {

using model::FieldProblem;
using model::HealthState;
using nvml::FakeLibrary;
using nvml::Query;

model::Node inventory(FakeLibrary& library, const std::string& pci_devices = "/nonexistent") {
  auto node = take_inventory(library, {.pci_devices = pci_devices, .hostname = "test"});
  EXPECT_TRUE(node.has_value()) << node.error().message;
  return *std::move(node);
}

// A folder shaped like /sys/bus/pci/devices that goes away with the test.
class PciDevices {
 public:
  void add(const std::string& address, const std::string& numa_node) const {
    std::filesystem::create_directory(path_ / address);
    std::ofstream(path_ / address / "numa_node") << numa_node << '\n';
  }
  std::string path() const { return path_.string(); }

 private:
  TemporaryFolder path_;
};

TEST(Inventory, ListsEverythingThatAHealthyGpuAnswers) {
  FakeLibrary library(1);
  library.gpu(0).memory = {gib(141), mib(600), gib(12)};
  library.gpu(0).utilization.gpu_percent = 37;
  const auto node = inventory(library);
  EXPECT_EQ(node.hostname(), "test");
  EXPECT_EQ(node.driver_version(), "580.159.04");
  EXPECT_EQ(node.cuda_version(), (model::CudaVersion{13, 0}));
  EXPECT_FALSE(node.simulated());
  ASSERT_EQ(node.gpus().size(), 1U);
  const model::Gpu& gpu = node.gpus()[0];
  EXPECT_EQ(gpu.index, model::GpuIndex(0));
  EXPECT_EQ(gpu.uuid->str(), "GPU-00001000-0000-4000-8000-000000000000");
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.memory_total, gib(141));
  EXPECT_EQ(gpu.memory_used, gib(12));
  EXPECT_EQ(memory_free(gpu), gib(129) - mib(600));
  EXPECT_EQ(gpu.driver_version, "580.159.04");
  EXPECT_EQ(to_string(*gpu.pci), "00000000:18:00.0");
  EXPECT_EQ(gpu.minor_number, 0U);
  EXPECT_EQ(gpu.numa_node, 0U);
  EXPECT_EQ(gpu.temperature_c, 30U);
  EXPECT_EQ(gpu.power_mw, 75'000U);
  EXPECT_EQ(gpu.power_limit_mw, 700'000U);
  EXPECT_EQ(gpu.utilization_percent, 37U);
  EXPECT_EQ(gpu.mig_mode, model::MigMode::kDisabled);
  EXPECT_EQ(gpu.health, (model::Health{HealthState::kHealthy, ""}));
  EXPECT_TRUE(gpu.problems.empty());
}

TEST(Inventory, ListsAGpuThatAnswersOnlySomeQuestions) {
  FakeLibrary library(2);
  library.gpu(1)
      .fail(Query::kTemperature, NVML_ERROR_UNKNOWN)
      .fail(Query::kMemory, NVML_ERROR_UNKNOWN);
  const auto node = inventory(library);
  const model::Gpu& gpu = node.gpus()[1];
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_FALSE(gpu.temperature_c.has_value());
  EXPECT_FALSE(gpu.memory_total.has_value());
  EXPECT_EQ(gpu.problems, (std::vector<FieldProblem>{{"memory", "Unknown Error"},
                                                     {"temperature", "Unknown Error"}}));
  EXPECT_EQ(gpu.health.state, HealthState::kSuspect);
  EXPECT_EQ(node.gpus()[0].health.state, HealthState::kHealthy);
}

TEST(Inventory, KeepsAGpuHealthyThatDoesNotSupportAQuestion) {
  FakeLibrary library(1);
  library.gpu(0)
      .fail(Query::kTemperature, NVML_ERROR_NOT_SUPPORTED)
      .fail(Query::kPowerLimit, NVML_ERROR_NOT_SUPPORTED)
      .fail(Query::kMemoryErrors, NVML_ERROR_NOT_SUPPORTED);
  const auto node = inventory(library);
  const model::Gpu& gpu = node.gpus()[0];
  EXPECT_EQ(gpu.health.state, HealthState::kHealthy);
  EXPECT_EQ(gpu.problems, (std::vector<FieldProblem>{{"temperature", "Not Supported"}}));
}

TEST(Inventory, ListsAGpuWithoutAHandle) {
  FakeLibrary library(2);
  library.gpu(0).fail(Query::kHandle, NVML_ERROR_GPU_IS_LOST);
  library.gpu(1).fail(Query::kHandle, NVML_ERROR_NO_PERMISSION);
  const auto node = inventory(library);
  ASSERT_EQ(node.gpus().size(), 2U);
  EXPECT_EQ(node.gpus()[0].problems, (std::vector<FieldProblem>{{"handle", "GPU is lost"}}));
  EXPECT_EQ(node.gpus()[0].health.state, HealthState::kQuarantined);
  EXPECT_EQ(node.gpus()[1].index, model::GpuIndex(1));
  EXPECT_EQ(node.gpus()[1].health.state, HealthState::kUnknown);
}

TEST(Inventory, QuarantinesAGpuThatIsLostBetweenQuestions) {
  FakeLibrary library(1);
  library.gpu(0)
      .fail(Query::kTemperature, NVML_ERROR_UNKNOWN)
      .fail(Query::kPower, NVML_ERROR_GPU_IS_LOST);
  const auto node = inventory(library);
  EXPECT_EQ(node.gpus()[0].health.state, HealthState::kQuarantined);
  EXPECT_EQ(node.gpus()[0].health.reason.find("GPU is lost"), 0U);
  EXPECT_TRUE(node.gpus()[0].uuid.has_value());
}

TEST(Inventory, SuspectsAGpuThatIsTooHot) {
  FakeLibrary library(1);
  library.gpu(0).temperature_c = 95;
  const auto node = inventory(library);
  EXPECT_EQ(node.gpus()[0].health.state, HealthState::kSuspect);
  EXPECT_EQ(node.gpus()[0].health.reason,
            "too hot: 95 degrees Celsius; clocks are lowered from 92 on");
}

TEST(Inventory, SuspectsAGpuWithDamagedMemory) {
  FakeLibrary library(3);
  library.gpu(0).memory_errors = 2;
  library.gpu(1).remapped.pending = true;
  library.gpu(2).remapped.failed = true;
  const auto node = inventory(library);
  EXPECT_EQ(node.gpus()[0].health.reason,
            "2 uncorrected memory errors since the driver was loaded");
  for (const model::Gpu& gpu : node.gpus()) {
    EXPECT_EQ(gpu.health.state, HealthState::kSuspect) << gpu.index.value();
  }
}

TEST(Inventory, TreatsAUuidThatMakesNoSenseAsAProblem) {
  FakeLibrary library(1);
  library.gpu(0).uuid = "GPU-\x1b[31m";
  const auto node = inventory(library);
  EXPECT_FALSE(node.gpus()[0].uuid.has_value());
  ASSERT_EQ(node.gpus()[0].problems.size(), 1U);
  EXPECT_EQ(node.gpus()[0].problems[0].field, "uuid");
}

TEST(Inventory, ReadsTheNumaNodeFromTheKernelWhereTheDriverDoesNotTell) {
  const PciDevices devices;
  devices.add("0000:18:00.0", "1");
  devices.add("0000:19:00.0", "-1");
  FakeLibrary library(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    library.gpu(i).fail(Query::kNearNumaNodes, NVML_ERROR_NOT_SUPPORTED);
  }
  const auto node = inventory(library, devices.path());
  EXPECT_EQ(node.gpus()[0].numa_node, 1U);
  EXPECT_EQ(node.topology().affinity(0).numa_node, 1U);
  EXPECT_FALSE(node.gpus()[1].numa_node.has_value());
  EXPECT_TRUE(node.gpus()[1].problems.empty());
}

TEST(Inventory, DoesNotAskTheKernelAboutSimulatedGpus) {
  const PciDevices devices;
  devices.add("0000:18:00.0", "1");
  FakeLibrary library(1);
  library.is_simulated = true;
  library.gpu(0).fail(Query::kNearNumaNodes, NVML_ERROR_NOT_SUPPORTED);
  const auto node = inventory(library, devices.path());
  EXPECT_TRUE(node.simulated());
  EXPECT_FALSE(node.gpus()[0].numa_node.has_value());
}

TEST(Inventory, FindsNoGpuWithoutComplaint) {
  FakeLibrary library(0);
  EXPECT_TRUE(inventory(library).gpus().empty());
}

TEST(Inventory, GoesOnWithoutVersions) {
  FakeLibrary library(1);
  library.driver = err(nvml::to_error(NVML_ERROR_UNKNOWN));
  library.cuda = err(nvml::to_error(NVML_ERROR_UNKNOWN));
  const auto node = inventory(library);
  EXPECT_FALSE(node.driver_version().has_value());
  EXPECT_FALSE(node.cuda_version().has_value());
}

TEST(Inventory, FailsWhenTheGpusCannotBeCounted) {
  FakeLibrary library(1);
  library.count = err(nvml::to_error(NVML_ERROR_UNKNOWN));
  EXPECT_FALSE(take_inventory(library).has_value());
}

TEST(Inventory, TakesTheNameOfThisMachine) {
  FakeLibrary library(0);
  EXPECT_FALSE(take_inventory(library)->hostname().empty());
}

}  // namespace
}  // namespace divvy::nvml
