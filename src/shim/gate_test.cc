// Lanes, batches, samples and captures, on a driver that only keeps what it is given. The test is
// the watcher: it looks by calling close_stale_batches().
#include "shim/gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "shim/cost.h"
#include "shim/gate_fixture.h"
#include "shim/link.h"
#include "shim/real.h"

namespace divvy::shim {
namespace {

// More than the looks after which a silent batch is closed when nobody waits.
constexpr int kManyLooks = 40;

// --- Costs ---

TEST_F(GateTest, CostsAreToldBeforeTheLaunch) {
  CUfunction known = measured(kernel(), 30'000);
  uint64_t told = 0;
  driver_.during_launch = [&] { told = lane(stream_).cost_ns; };
  launch(known, stream_);
  EXPECT_EQ(told, 30'000U);
  launch(known, stream_);
  EXPECT_EQ(told, 60'000U);
  EXPECT_EQ(lane(stream_).begun_cost_ns, 0U);
  launch(kernel(1), stream_);
  EXPECT_EQ(told, 60'000U + kUnknownCostNs);
}

TEST_F(GateTest, ABatchTellsTheCostOfAllBeforeIt) {
  CUfunction half = measured(kernel(), kBatchNs / 2);
  for (int i = 0; i < 3; ++i) launch(half, stream_);
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch launch done gate passed launch");
  EXPECT_EQ(lane(stream_).begun_cost_ns, kBatchNs);
  EXPECT_EQ(lane(stream_).cost_ns, kBatchNs / 2 * 3);
}

TEST_F(GateTest, ALaneMadeAnewTellsNoCost) {
  launch(measured(kernel(), 30'000), stream_);
  const wire::Lane& first = lane(stream_);
  EXPECT_EQ(::cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  driver_.run();
  CUstream other = driver_.make_stream();
  // The fake driver forgets the queue of a stream that is destroyed.
  const_cast<wire::Lane&>(first).done = first.inserted.load();
  launch(measured(kernel(), 30'000), other);
  ASSERT_EQ(&lane(other), &first) << "the lane is used again";
  EXPECT_EQ(first.cost_ns, 30'000U);
  EXPECT_EQ(first.begun_cost_ns, 0U);
}

// Whether others or only its cap would have to wait for it.
TEST_F(GateTest, UnmeasuredKernelsHaveBatchesOfTheirOwn) {
  CUfunction known = measured(kernel(), 30'000);
  launch(known, stream_);
  launch(kernel(1), stream_);
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch done gate passed launch done");
  launch(known, stream_);
  launch(known, stream_);
  EXPECT_EQ(driver_.queue(stream_),
            "gate passed launch done gate passed launch done gate passed launch launch");
}

// --- Samples ---

TEST_F(GateTest, ASampleIsHeldUntilItsLaunchIsQueued) {
  launch(kernel(), stream_);
  const uint32_t before = lanes()->released;
  driver_.during_launch = [&] { EXPECT_EQ(lanes()->released, before) << "not yet"; };
  launch(kernel(), stream_);
  EXPECT_EQ(driver_.queue(stream_),
            "gate passed launch done gate passed hold before begin launch end done");
  driver_.run();
  EXPECT_EQ(driver_.queue(stream_), "") << "nothing is held any more";
}

TEST_F(GateTest, LearnsFromSamples) {
  driver_.sample_ms = 0.25F;
  driver_.event_ms = 0.00125F;
  launch(kernel(), stream_);
  launch(kernel(), stream_);
  driver_.run();
  ::cuMemcpyHtoDAsync_v2(0, nullptr, 1, stream_);
  launch(kernel(), stream_);  // begins a batch, and collects
  EXPECT_EQ(predicted_ns(cost_of(kernel_key(kernel(), 1))), 248'750U) << "less what an event takes";
}

TEST_F(GateTest, AnothersTimeSliceBetweenTheEventsOfASampleIsNotTakenOff) {
  driver_.sample_ms = 0.25F;
  driver_.event_ms = 2;
  launch(kernel(), stream_);
  launch(kernel(), stream_);
  driver_.run();
  ::cuMemcpyHtoDAsync_v2(0, nullptr, 1, stream_);
  launch(kernel(), stream_);
  EXPECT_EQ(predicted_ns(cost_of(kernel_key(kernel(), 1))), 250'000U);
}

// A launch that waits for the GPU, which waits for the launch.
TEST_F(GateTest, TheWatcherLetsGoASampleThatIsHeldForLong) {
  launch(kernel(), stream_);
  driver_.during_launch = [&] {
    const uint32_t before = lanes()->released;
    EXPECT_TRUE(close_stale_batches());
    EXPECT_EQ(lanes()->released, before) << "held since less than a look";
    EXPECT_TRUE(close_stale_batches());
    EXPECT_NE(lanes()->released, before);
    EXPECT_EQ(driver_.queue(stream_), "gate passed launch done gate passed hold before begin")
        << "the driver may be blocked: it is not called";
  };
  launch(kernel(), stream_);
  driver_.during_launch = {};
  driver_.run();
  ::cuMemcpyHtoDAsync_v2(0, nullptr, 1, stream_);
  launch(kernel(), stream_);
  EXPECT_FALSE(is_measured(cost_of(kernel_key(kernel(), 1)))) << "such a sample says nothing";
}

TEST_F(GateTest, NothingIsSampledWhileSomethingIsCaptured) {
  CUstream captured = driver_.make_stream();
  launch(kernel(), stream_);
  ASSERT_EQ(::cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  launch(kernel(), stream_);
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch done gate passed launch done");
  CUgraph graph = nullptr;
  ASSERT_EQ(::cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
}

// It goes into several streams at once, after all of them have passed their gates.
TEST_F(GateTest, ALaunchOnSeveralDevicesIsNotSampled) {
  struct Launch {
    CUfunction function;
    unsigned shape[7];
    CUstream stream;
    void** parameters;
  } launch_on_one = {kernel(), {1, 1, 1, 1, 1, 1, 0}, stream_, nullptr};
  g_cuda.cuLaunchCooperativeKernelMultiDevice = [](void*, unsigned, unsigned) {
    return CUDA_SUCCESS;
  };
  for (int i = 0; i < 3; ++i) ::cuLaunchCooperativeKernelMultiDevice(&launch_on_one, 1, 0);
  EXPECT_EQ(driver_.queue(stream_), "gate passed");
  EXPECT_EQ(lane(stream_).cost_ns, 3 * kUnknownCostNs);
}

// --- What goes between batches ---

TEST_F(GateTest, WaitsForOtherStreamsGoBetweenBatches) {
  CUfunction known = measured(kernel(), 1000);
  launch(known, stream_);
  ::cuStreamWaitEvent(stream_, nullptr, 0);
  launch(known, stream_);
  ::cuMemcpyHtoDAsync_v2(0, nullptr, 1, stream_);
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch done event gate passed launch done copy");
}

TEST_F(GateTest, TheLegacyStreamAndBlockingStreamsCloseEachOthersBatches) {
  CUfunction known = measured(kernel(), 1000);
  CUstream blocking = driver_.make_stream(CU_STREAM_DEFAULT);
  launch(known, blocking);
  launch(known, stream_);
  launch(known, nullptr);
  EXPECT_EQ(driver_.queue(blocking), "gate passed launch done");
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch") << "one that does not wait for it";
  launch(known, stream_);
  EXPECT_EQ(driver_.queue(nullptr), "gate passed launch");
  launch(known, blocking);
  EXPECT_EQ(driver_.queue(nullptr), "gate passed launch done");
  EXPECT_EQ(driver_.queue(blocking), "gate passed launch done gate passed launch");
  ::cuMemcpyHtoDAsync_v2(0, nullptr, 1, nullptr);
  EXPECT_EQ(driver_.queue(blocking), "gate passed launch done gate passed launch done");
}

// --- The end of a batch ---

TEST_F(GateTest, BatchesStayOpenOverSynchronisationWhenNobodyWaits) {
  CUfunction known = measured(kernel(), 1000);
  for (int step = 0; step < 3; ++step) {
    launch(known, stream_);
    ::cuStreamSynchronize(stream_);
    close_stale_batches();
  }
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch launch launch");
}

TEST_F(GateTest, SynchronisationClosesABatchWhenOthersWait) {
  for (const uint32_t flag : {wire::kSliceContended, wire::kSliceLatencyClass}) {
    slice().flags = flag;
    launch(measured(kernel(), 1000), stream_);
    ::cuStreamSynchronize(stream_);
    EXPECT_EQ(driver_.queue(stream_), "gate passed launch done");
    driver_.run();
  }
}

TEST_F(GateTest, ASilentBatchIsClosedSoonWhenOthersWait) {
  slice().flags = wire::kSliceContended;
  launch(measured(kernel(), 1000), stream_);
  EXPECT_TRUE(close_stale_batches());
  EXPECT_TRUE(close_stale_batches());
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch done");
  EXPECT_FALSE(close_stale_batches()) << "nothing to look at";
}

TEST_F(GateTest, ASilentBatchIsClosedAfterAWhileWhenNobodyWaits) {
  launch(measured(kernel(), 1000), stream_);
  for (int look = 0; look < 10; ++look) EXPECT_TRUE(close_stale_batches());
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch");
  for (int look = 0; look < kManyLooks; ++look) close_stale_batches();
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch done");
}

TEST_F(GateTest, ABatchThatRunsBehindAClosedGateIsClosedAtOnce) {
  launch(measured(kernel(), 1000), stream_);
  driver_.run();
  slice().gate = 0;
  launch(measured(kernel(), 1000), stream_);
  close_stale_batches();
  EXPECT_EQ(driver_.queue(stream_), "launch done");
}

// --- Captures ---

TEST_F(GateTest, NothingGoesIntoAStreamThatJoinedACapture) {
  CUfunction known = measured(kernel(), 1000);
  CUstream first = driver_.make_stream();
  launch(known, stream_);
  ASSERT_EQ(::cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  auto* captured_event = reinterpret_cast<CUevent>(uintptr_t{0xca9});
  ASSERT_EQ(::cuStreamWaitEvent(stream_, captured_event, 0), CUDA_SUCCESS);
  launch(known, stream_);
  for (int look = 0; look < kManyLooks; ++look) close_stale_batches();
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch done");
  CUgraph graph = nullptr;
  ::cuStreamEndCapture(stream_, &graph);
  ::cuStreamEndCapture(first, &graph);
}

// The watcher asks whether a stream is captured and then writes to it; in between the program must
// not be able to begin.
TEST_F(GateTest, NoCaptureBeginsWhileTheWatcherWrites) {
  CUfunction known = measured(kernel(), 1000);
  CUstream first = driver_.make_stream();
  ASSERT_EQ(::cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  launch(known, stream_);
  std::thread program;
  std::atomic<bool> asked{false};
  driver_.when_asked_for_capture = [&] {
    if (asked.exchange(true)) return;
    program =
        std::thread([&] { ::cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED); });
    for (int i = 0; i < 2000; ++i) std::this_thread::yield();
  };
  for (int look = 0; look < kManyLooks && !asked; ++look) close_stale_batches();
  ASSERT_TRUE(program.joinable());
  program.join();
  EXPECT_EQ(driver_.misuse, "");
  CUgraph graph = nullptr;
  ::cuStreamEndCapture(stream_, &graph);
  ::cuStreamEndCapture(first, &graph);
}

TEST_F(GateTest, TheLegacyStreamIsLeftAloneDuringACapture) {
  launch(measured(kernel(), 1000), nullptr);
  ASSERT_EQ(::cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(driver_.queue(nullptr), "gate passed launch done") << "closed before";
  for (int look = 0; look < kManyLooks; ++look) close_stale_batches();
  CUgraph graph = nullptr;
  ::cuStreamEndCapture(stream_, &graph);
}

// --- Contexts, threads, failures ---

TEST_F(GateTest, TheWatcherLeavesAContextAloneThatIsBeingDestroyed) {
  slice().flags = wire::kSliceContended;
  CUcontext other = driver_.make_context();
  CUstream stream = driver_.make_stream();
  launch(measured(kernel(), 1000), stream);
  const wire::Lane& lane_of_other = lane(stream);
  driver_.during_destroy = [] {
    for (int look = 0; look < kManyLooks; ++look) close_stale_batches();
    gate_pages_changed(false);
  };
  ASSERT_EQ(::cuCtxDestroy_v2(other), CUDA_SUCCESS);
  driver_.during_destroy = {};
  EXPECT_EQ(driver_.misuse, "");
  EXPECT_EQ(state(lane_of_other), wire::LaneState::kFree);
  EXPECT_EQ(lane_of_other.inserted, lane_of_other.done) << "nothing of it will happen any more";
}

TEST_F(GateTest, AContextThatWasNotDestroyedGoesOn) {
  driver_.refuse_destroy = true;
  launch(measured(kernel(), 1000), stream_);
  EXPECT_NE(::cuCtxDestroy_v2(context_), CUDA_SUCCESS);
  driver_.refuse_destroy = false;
  launch(measured(kernel(), 1000), stream_);
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch done gate passed launch");
  for (int look = 0; look < kManyLooks; ++look) close_stale_batches();
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch done gate passed launch done");
}

TEST_F(GateTest, LanesOfThreadsThatEndedAreUsedAgain) {
  CUfunction known = measured(kernel(), 1000);
  for (int i = 0; i < 2 * wire::kMaxLanes; ++i) {
    std::thread([&] {
      CUcontext popped = nullptr;
      g_cuda.cuCtxPushCurrent_v2(context_);
      ::cuLaunchKernel_ptsz(known, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
      EXPECT_EQ(driver_.queue(CU_STREAM_PER_THREAD), "gate passed launch");
      g_cuda.cuCtxPopCurrent_v2(&popped);
    }).join();
    driver_.run();
  }
  EXPECT_LT(lane_high(), 8);
}

TEST_F(GateTest, ADeadLaneWantsNothingEver) {
  launch(measured(kernel(), 1000), stream_);
  const wire::Lane& dead = lane(stream_);
  driver_.refuse_memory_operations = true;
  ::cuMemcpyHtoDAsync_v2(0, nullptr, 1, stream_);
  driver_.refuse_memory_operations = false;
  EXPECT_EQ(state(dead), wire::LaneState::kDead);
  EXPECT_EQ(::cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  EXPECT_EQ(state(dead), wire::LaneState::kDead) << "its batch is open for ever";
  CUstream other = driver_.make_stream();
  launch(measured(kernel(), 1000), other);
  EXPECT_NE(&lane(other), &dead) << "the GPU may still write into it";
}

TEST_F(GateTest, ABatchThatCouldNotBeginIsNoBatch) {
  driver_.refuse_memory_operations = true;
  launch(measured(kernel(), 1000), stream_);
  driver_.refuse_memory_operations = false;
  const wire::Lane& dead = lane(stream_);
  EXPECT_EQ(state(dead), wire::LaneState::kDead);
  EXPECT_EQ(dead.inserted, dead.done);
  EXPECT_EQ(driver_.queue(stream_), "launch") << "without a gate, but launched";
}

TEST_F(GateTest, AForkedChildHasNoLanes) {
  launch(measured(kernel(), 1000), stream_);
  const pid_t child = fork();
  if (child == 0) _exit(lane_high() == 0 && g_open_batches == 0 && lanes() == nullptr ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(lane_high() > 0, true);
}

}  // namespace
}  // namespace divvy::shim
