#include "health/gpu_sample.h"

#include <gtest/gtest.h>

#include "nvml/fake_library.h"

namespace divvy::health {
namespace {

using nvml::FakeLibrary;
using nvml::Query;

GpuSample sample_of(FakeLibrary& library, std::uint32_t gpu) {
  return take_sample(library, nvml::Device{&library.gpu(gpu)}, model::GpuIndex(gpu),
                     model::GpuUuid::parse(library.gpu(gpu).uuid).value(), WallTime{});
}

int fields_of(const GpuSample& sample) {
  int count = 0;
  visit_fields(sample, [&count](const auto& field) { count += field.has_value() ? 1 : 0; });
  return count;
}

TEST(GpuSample, HoldsWhatTheDriverSaid) {
  FakeLibrary library(1);
  nvml::FakeGpu& gpu = library.gpu(0);
  gpu.memory = {mib(1000), mib(100), mib(300)};
  gpu.utilization = {70, 30};
  gpu.clock_limits = {std::chrono::nanoseconds(5), std::chrono::nanoseconds(7)};
  gpu.corrected_errors = 3;
  gpu.memory_errors = 1;
  gpu.remapped = {.correctable = 1, .uncorrectable = 2, .pending = true, .failed = false};
  gpu.activity.tensor = 0.25;
  gpu.activity.pcie = nvml::Throughput{1000, 2000};
  const GpuSample sample = sample_of(library, 0);
  EXPECT_EQ(sample.memory_free, mib(600));
  EXPECT_EQ(sample.memory_used, mib(300));
  EXPECT_EQ(sample.memory_reserved, mib(100));
  EXPECT_EQ(sample.gpu_percent, 70U);
  EXPECT_EQ(sample.memory_percent, 30U);
  EXPECT_EQ(sample.sm_clock_mhz, 345U);
  EXPECT_EQ(sample.memory_clock_mhz, 2619U);
  EXPECT_EQ(sample.power_violation_ns, 5U);
  EXPECT_EQ(sample.thermal_violation_ns, 7U);
  EXPECT_EQ(sample.corrected_errors, 3U);
  EXPECT_EQ(sample.uncorrected_errors, 1U);
  EXPECT_EQ(sample.correctable_rows, 1U);
  EXPECT_EQ(sample.uncorrectable_rows, 2U);
  EXPECT_EQ(sample.remap_pending, true);
  EXPECT_EQ(sample.remap_failed, false);
  EXPECT_EQ(sample.tensor_active, 0.25);
  EXPECT_EQ(sample.fp64_active, std::nullopt);
  EXPECT_EQ(sample.pcie_tx_bytes_per_s, 1000U);
  EXPECT_EQ(sample.pcie_rx_bytes_per_s, 2000U);
}

TEST(GpuSample, HasNoFieldThatTheDriverDidNotAnswer) {
  FakeLibrary library(1);
  EXPECT_GT(fields_of(sample_of(library, 0)), 20);
  library.gpu(0).fail_everything(NVML_ERROR_GPU_IS_LOST);
  EXPECT_EQ(fields_of(sample_of(library, 0)), 0);
}

TEST(GpuSample, AsksForPcieTrafficWhereThereIsNoPerformanceMonitoring) {
  FakeLibrary library(1);
  library.gpu(0).fail(Query::kActivity, NVML_ERROR_NOT_SUPPORTED);
  library.gpu(0).pcie = {10, 20};
  const GpuSample sample = sample_of(library, 0);
  EXPECT_EQ(sample.pcie_tx_bytes_per_s, 10U);
  EXPECT_EQ(sample.pcie_rx_bytes_per_s, 20U);
  EXPECT_EQ(sample.nvlink_tx_bytes_per_s, std::nullopt);
  EXPECT_EQ(sample.graphics_active, std::nullopt);
}

TEST(SampleBoard, KeepsTheLatestSampleOfEachGpu) {
  FakeLibrary library(2);
  SampleBoard board;
  EXPECT_TRUE(board.all().empty());
  board.put(sample_of(library, 0));
  board.put(sample_of(library, 1));
  library.gpu(0).temperature_c = 80;
  board.put(sample_of(library, 0));
  ASSERT_EQ(board.all().size(), 2U);
  EXPECT_EQ(board.all()[0].temperature_c, 80U);
}

}  // namespace
}  // namespace divvy::health
