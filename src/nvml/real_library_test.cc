#include <gtest/gtest.h>

#include <algorithm>

#include "nvml/error.h"
#include "nvml/library.h"

namespace divvy::nvml {
namespace {

std::unique_ptr<Library> old_driver() {
  auto library = open({.path = DIVVY_OLD_DRIVER, .simulated = false});
  EXPECT_TRUE(library.has_value()) << library.error().message;
  return std::move(library).value();
}

TEST(RealLibrary, SaysThatThereIsNoLibrary) {
  const auto library = open({.path = "/nonexistent/libnvidia-ml.so.1", .simulated = false});
  ASSERT_FALSE(library.has_value());
  EXPECT_EQ(library.error().code, ErrorCode::kNotFound);
  EXPECT_NE(library.error().message.find("/nonexistent/libnvidia-ml.so.1"), std::string::npos);
}

TEST(RealLibrary, RefusesALibraryThatIsNotNvml) {
  const auto library = open({.path = "libc.so.6", .simulated = false});
  ASSERT_FALSE(library.has_value());
  EXPECT_EQ(library.error().code, ErrorCode::kUnsupported);
}

TEST(RealLibrary, AnswersUnsupportedWhereTheDriverLacksTheFunction) {
  const auto library = old_driver();
  ASSERT_EQ(library->device_count().value(), 1U);
  const Device device = library->device(0).value();
  EXPECT_EQ(library->uuid(device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->driver_version().error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->active_nvlinks(device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->distance(device, device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->watch_xids({}).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->processes(device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->mig_mode(device).value(), model::MigMode::kUnsupported);
}

TEST(RealLibrary, FallsBackToOlderFunctions) {
  const auto library = old_driver();
  const Device device = library->device(0).value();
  EXPECT_EQ(library->name(device).value(), "Tesla K80");
  EXPECT_EQ(library->memory(device)->total, mib(12));
  EXPECT_EQ(library->memory(device)->used, mib(4));
  EXPECT_EQ(library->temperature_c(device).value(), 55U);
  EXPECT_EQ(library->clock_event_reasons(device).value(), 4U);
}

TEST(RealLibrary, ReadsNumberedFieldsWithAnAnswerEach) {
  const auto library = old_driver();
  const Device device = library->device(0).value();
  const auto limits = library->clock_limits(device);
  ASSERT_TRUE(limits.has_value()) << limits.error().message;
  EXPECT_EQ(limits->by_power, std::chrono::seconds(5));
  EXPECT_EQ(limits->by_heat, std::chrono::nanoseconds(9));
  EXPECT_EQ(library->nvlink_bytes(device).error().code, ErrorCode::kUnsupported);
}

TEST(RealLibrary, TakesNoZeroForAnAnswer) {
  const auto library = old_driver();
  const Device device = library->device(0).value();
  EXPECT_EQ(library->memory_temperature_c(device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->energy_mj(device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->clock_mhz(device, ClockDomain::kSm).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->encoder_percent(device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->pcie_throughput(device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->activity(device).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(library->corrected_memory_errors(device).error().code, ErrorCode::kUnsupported);
}

TEST(RealLibrary, ReadsProcessorsFromTheBitSet) {
  const auto library = old_driver();
  const Device device = library->device(0).value();
  EXPECT_EQ(library->near_cpus(device).value(), (std::vector<std::uint32_t>{0, 2, 64}));
}

TEST(RealLibrary, PassesOnThatTheGpuIsLost) {
  const auto library = old_driver();
  const auto power = library->power_mw(library->device(0).value());
  ASSERT_FALSE(power.has_value());
  EXPECT_TRUE(says_gpu_is_lost(power.error()));
}

TEST(RealLibrary, TakesTheLatestSampleOfEachBusyProcess) {
  const auto library = old_driver();
  const Device device = library->device(0).value();
  const std::chrono::system_clock::time_point start{};
  // More samples than the first guess has room for; some of them nonsense.
  const auto busy = library->process_utilization(device, start);
  ASSERT_TRUE(busy.has_value()) << busy.error().message;
  ASSERT_EQ(busy->size(), 2U);
  const auto of = [&busy](std::uint32_t pid) {
    return std::ranges::find(*busy, pid, &ProcessUtilization::pid)->sm_percent;
  };
  EXPECT_EQ(of(10), 80U);
  EXPECT_EQ(of(11), 5U);
  EXPECT_TRUE(library->process_utilization(device, start + std::chrono::hours(1))->empty());
}

TEST(RealLibrary, RefusesAnIndexBeyondTheLastGpu) {
  EXPECT_EQ(old_driver()->device(1).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace divvy::nvml
