#include "nvml/fake_library.h"

#include <gtest/gtest.h>

#include <thread>

namespace divvy::nvml {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kForever = std::chrono::hours(1);

TEST(FakeLibrary, FailsOnlyTheQueriesThatItWasToldTo) {
  FakeLibrary library(2);
  library.gpu(1).fail(Query::kTemperature, NVML_ERROR_NOT_SUPPORTED);
  const Device healthy = library.device(0).value();
  const Device odd = library.device(1).value();
  EXPECT_TRUE(library.temperature_c(healthy).has_value());
  EXPECT_EQ(library.temperature_c(odd).error().message, "Not Supported");
  EXPECT_TRUE(library.power_mw(odd).has_value());
}

TEST(FakeLibrary, WakesAWaiterWithAnErrorOfItsGpu) {
  FakeLibrary library(2);
  const Device watched = library.device(1).value();
  const auto events = library.watch_xids(std::span(&watched, 1)).value();
  std::jthread driver([&library] {
    library.raise_xid(0, 13);
    library.raise_xid(1, 79);
  });
  const auto event = events->wait(kForever).value();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->device, watched);
  EXPECT_EQ(event->number, 79U);
}

TEST(FakeLibrary, AnswersAWaitWithNothingWhenNothingHappens) {
  FakeLibrary library(1);
  const Device device = library.device(0).value();
  const auto events = library.watch_xids(std::span(&device, 1)).value();
  EXPECT_EQ(events->wait(milliseconds(0)).value().has_value(), false);
}

}  // namespace
}  // namespace divvy::nvml
