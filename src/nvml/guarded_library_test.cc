#include "nvml/guarded_library.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "nvml/fake_library.h"

namespace divvy::nvml {
namespace {

// A driver in which questions about the temperature of GPU 0 do not come back until the test ends.
// What the guard leaves behind may outlive the test's own objects.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  std::condition_variable came;
  bool open = false;
  bool waited_at = false;

  void pass() {
    std::unique_lock lock(mutex);
    waited_at = true;
    came.notify_all();
    opened.wait(lock, [this] { return open; });
  }
  void wait_for_somebody() {
    std::unique_lock lock(mutex);
    came.wait(lock, [this] { return waited_at; });
  }
  void let_go() {
    const std::lock_guard lock(mutex);
    open = true;
    opened.notify_all();
  }
};

class StuckLibrary : public FakeLibrary {
 public:
  explicit StuckLibrary(std::shared_ptr<Gate> gate) : FakeLibrary(2), gate_(std::move(gate)) {}
  Result<std::uint32_t> temperature_c(Device asked) override {
    if (asked == *FakeLibrary::device(0)) gate_->pass();
    return FakeLibrary::temperature_c(asked);
  }

 private:
  std::shared_ptr<Gate> gate_;
};

constexpr auto kShort = std::chrono::milliseconds(20);

TEST(GuardedLibrary, PassesAnswersAndErrorsOn) {
  auto fake = std::make_unique<FakeLibrary>(1);
  fake->gpu(0).fail(Query::kPower, NVML_ERROR_GPU_IS_LOST);
  const auto library = guarded(std::move(fake));
  const auto device = library->device(0);
  ASSERT_TRUE(device);
  EXPECT_EQ(library->temperature_c(*device), 30U);
  EXPECT_TRUE(says_gpu_is_lost(library->power_mw(*device).error()));
  EXPECT_FALSE(library->device(7));
}

TEST(GuardedLibrary, AHangingGpuTimesOutWithoutDelayingOthers) {
  const auto gate = std::make_shared<Gate>();
  const auto library = guarded(std::make_unique<StuckLibrary>(gate), kShort);
  const auto stuck = library->device(0);
  const auto well = library->device(1);
  ASSERT_TRUE(stuck && well);
  EXPECT_EQ(library->temperature_c(*stuck).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(library->power_mw(*stuck).error().code, ErrorCode::kTimeout);
  EXPECT_TRUE(library->temperature_c(*well));
  EXPECT_TRUE(library->power_mw(*well));
  // It comes back as soon as the driver does.
  gate->let_go();
  while (!library->power_mw(*stuck)) {
  }
  EXPECT_EQ(library->temperature_c(*stuck), 30U);
}

TEST(GuardedLibrary, IsDestroyedWhileACallHangs) {
  const auto gate = std::make_shared<Gate>();
  // The guard leaves it behind, because somebody is in it.
  Library* left_behind = nullptr;
  {
    auto inner = std::make_unique<StuckLibrary>(gate);
    left_behind = inner.get();
    const auto library = guarded(std::move(inner), kShort);
    const auto stuck = library->device(0);
    ASSERT_TRUE(stuck);
    EXPECT_FALSE(library->temperature_c(*stuck));
    gate->wait_for_somebody();  // The guard's patience may be over before its thread has a core.
  }
  EXPECT_TRUE(left_behind->device_count());
  gate->let_go();
}

}  // namespace
}  // namespace divvy::nvml
