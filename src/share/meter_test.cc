#include "share/meter.h"

#include <gtest/gtest.h>

#include <future>

#include "nvml/fake_library.h"

namespace divvy::share {
namespace {

using nvml::FakeLibrary;

model::GpuUuid uuid_of(FakeLibrary& library, std::uint32_t gpu) {
  return model::GpuUuid::parse(library.gpu(gpu).uuid).value();
}

std::optional<Bytes> measured(Meter& meter, const model::GpuUuid& gpu, pid_t pid) {
  std::promise<std::optional<Bytes>> answer;
  meter.measure(gpu, pid, [&answer](std::optional<Bytes> bytes) { answer.set_value(bytes); });
  return answer.get_future().get();
}

TEST(Meter, AnswersWhatTheDriverHoldsForAProcess) {
  FakeLibrary library(2);
  library.gpu(1).processes = {{10, mib(5)}, {11, mib(7)}, {12, std::nullopt}};
  SystemClock clock;
  Meter meter(library, clock);
  meter.start([] { return false; });
  EXPECT_EQ(measured(meter, uuid_of(library, 1), 11), mib(7));
  EXPECT_EQ(measured(meter, uuid_of(library, 1), 12), std::nullopt);
  EXPECT_EQ(measured(meter, uuid_of(library, 1), 13), std::nullopt);
  EXPECT_EQ(measured(meter, uuid_of(library, 0), 11), std::nullopt);
}

TEST(Meter, DoesNotKnowWhereTheDriverDoesNotTell) {
  FakeLibrary library(1);
  library.gpu(0).fail(nvml::Query::kProcesses, NVML_ERROR_NOT_SUPPORTED);
  SystemClock clock;
  Meter meter(library, clock);
  meter.start([] { return false; });
  EXPECT_EQ(measured(meter, uuid_of(library, 0), 11), std::nullopt);
}

TEST(Meter, SaysHowBusyEachProcessKeptTheGpu) {
  FakeLibrary library(1);
  library.gpu(0).process_utilization = {{10, 37}, {11, 100}};
  SystemClock clock;
  Meter meter(library, clock);
  EXPECT_EQ(meter.busy_on(uuid_of(library, 0)), (Meter::BusyByProcess{{10, 370}, {11, 1000}}));
  library.gpu(0).process_utilization.clear();
  EXPECT_EQ(meter.busy_on(uuid_of(library, 0)), Meter::BusyByProcess{});  // Everybody is idle
  library.gpu(0).fail(nvml::Query::kProcessUtilization, NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(meter.busy_on(uuid_of(library, 0)), std::nullopt);
}

TEST(Meter, AuditsOnceASecondWhileThereIsReasonTo) {
  FakeLibrary library(1);
  ManualClock clock;
  Meter meter(library, clock);
  std::atomic<int> audits{0};
  meter.start([&audits] { return ++audits < 3; });
  clock.await_waiters(1);
  EXPECT_EQ(clock.next_deadline(), std::nullopt);  // Asleep
  meter.wake();
  for (int round = 1; round <= 3; ++round) {
    while (!clock.next_deadline()) clock.await_waiters(1);
    clock.advance(std::chrono::seconds(1));
    clock.await_waiters(1);
    EXPECT_EQ(audits.load(), round);
  }
  EXPECT_EQ(clock.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace divvy::share
