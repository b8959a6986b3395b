// Waits for events, on a driver that only keeps what it is given: what a stream stands at while the
// event's batch stands at the gate.
#include "shim/event_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shim/gate_fixture.h"
#include "shim/real.h"

namespace divvy::shim {
namespace {

class EventOrderTest : public GateTest {
 protected:
  EventOrderTest() : other_(driver_.make_stream()), event_(driver_.make_event()) {
    slice().gate = 0;
    events_forget_after_fork();  // handles are the same in every test
  }
  // The driver forgets what is queued, so a batch of a destroyed stream never ends by itself.
  static void end_all(wire::Lane& lane) {
    lane.passed = lane.closed = lane.done = lane.inserted.load();
  }
  static wire::Lane& shared(CUstream stream) { return *existing_lane(stream, false)->lane.load(); }
  CUfunction known() { return measured(kernel(), 1000); }
  void record_behind_batch(CUstream stream) {
    launch(known(), stream);
    ASSERT_EQ(::cuEventRecord(event_, stream), CUDA_SUCCESS);
  }
  // What a wait for the event puts into `other_`.
  std::string waited() {
    EXPECT_EQ(::cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
    return driver_.queue(other_);
  }

  CUstream other_;
  CUevent event_;
};

TEST_F(EventOrderTest, AStreamStandsAtAValueWhileTheEventsBatchStandsAtTheGate) {
  record_behind_batch(stream_);
  EXPECT_EQ(waited(), "value event");
  launch(known(), other_);
  driver_.run();
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch record");
  EXPECT_EQ(driver_.queue(other_), "value event gate passed launch");
  slice().gate = 1;
  driver_.run();
  EXPECT_EQ(driver_.queue(stream_), "");
  EXPECT_EQ(driver_.queue(other_), "");
}

TEST_F(EventOrderTest, TheWaitClosesNoBatchOfTheEventsStream) {
  record_behind_batch(stream_);
  launch(known(), stream_);
  EXPECT_EQ(waited(), "value event");
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch record launch") << "not held up by us";
}

TEST_F(EventOrderTest, ARingOfStreamsNeverStandsAtAnEvent) {
  constexpr int kStreams = 4;
  CUstream stream[kStreams];
  CUevent event[kStreams];
  for (int i = 0; i < kStreams; ++i) {
    stream[i] = driver_.make_stream();
    event[i] = driver_.make_event();
  }
  for (int step = 0; step < 3 * kStreams; ++step) {
    launch(known(), stream[step % kStreams]);
    ASSERT_EQ(::cuEventRecord(event[step % kStreams], stream[step % kStreams]), CUDA_SUCCESS);
    ASSERT_EQ(::cuStreamWaitEvent(stream[(step + 1) % kStreams], event[step % kStreams], 0),
              CUDA_SUCCESS);
    driver_.run();
    for (CUstream each : stream) EXPECT_NE(driver_.queue(each).substr(0, 5), "event");
  }
  slice().gate = 1;
  driver_.run();
  for (CUstream each : stream) EXPECT_EQ(driver_.queue(each), "");
}

TEST_F(EventOrderTest, NothingIsAddedForABatchThatPassedTheGate) {
  slice().gate = 1;
  record_behind_batch(stream_);
  driver_.run();
  EXPECT_EQ(waited(), "event");
}

TEST_F(EventOrderTest, NothingIsAddedInTheSameStream) {
  record_behind_batch(stream_);
  EXPECT_EQ(::cuStreamWaitEvent(stream_, event_, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.queue(stream_), "gate passed launch record done event");
}

TEST_F(EventOrderTest, EventsOfTheLegacyAndOfPerThreadStreamsAreFollowed) {
  record_behind_batch(nullptr);
  EXPECT_EQ(waited(), "value event");
  g_cuda.cuEventRecord_ptsz = [](CUevent, CUstream) { return CUDA_SUCCESS; };
  ::cuLaunchKernel_ptsz(known(), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  ASSERT_EQ(::cuEventRecord_ptsz(event_, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(waited(), "value event value event");
  // And a wait in one of them.
  record_behind_batch(stream_);
  ASSERT_EQ(::cuStreamWaitEvent(nullptr, event_, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.queue(nullptr), "gate passed launch record done value event");
}

TEST_F(EventOrderTest, RecordsWithFlagsAreFollowed) {
  g_cuda.cuEventRecordWithFlags = [](CUevent event, CUstream stream, unsigned) {
    return g_cuda.cuEventRecord(event, stream);
  };
  launch(known(), stream_);
  ASSERT_EQ(::cuEventRecordWithFlags(event_, stream_, 0), CUDA_SUCCESS);
  EXPECT_EQ(waited(), "value event");
}

TEST_F(EventOrderTest, TheLastRecordCounts) {
  record_behind_batch(stream_);
  CUstream copies = driver_.make_stream();
  ASSERT_EQ(::cuEventRecord(event_, copies), CUDA_SUCCESS);
  EXPECT_EQ(waited(), "event") << "a stream without launches has no batch";
  record_behind_batch(stream_);
  EXPECT_EQ(waited(), "event value event");
}

TEST_F(EventOrderTest, ARecordThatFailedChangesNothing) {
  launch(known(), stream_);
  g_cuda.cuEventRecord = [](CUevent, CUstream) { return CUDA_ERROR_INVALID_HANDLE; };
  EXPECT_EQ(::cuEventRecord(event_, stream_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(waited(), "event");
}

TEST_F(EventOrderTest, ADestroyedEventIsForgotten) {
  record_behind_batch(stream_);
  EXPECT_EQ(::cuEventDestroy_v2(event_), CUDA_SUCCESS);
  EXPECT_EQ(waited(), "event") << "the handle is another event's now";
}

TEST_F(EventOrderTest, HandlesThatAreNoAlignedPointersAreWaitedForAsTheyAre) {
  for (const uintptr_t handle : {uintptr_t{0}, uintptr_t{0x7f0001}, ~uintptr_t{0xf}}) {
    auto* event = reinterpret_cast<CUevent>(handle);
    event_recorded(event, {0, 1});
    forget_event(event);
    wait_for_batch_of(event, other_, false);
  }
  EXPECT_EQ(driver_.queue(other_), "");
}

TEST_F(EventOrderTest, MoreEventsThanThereIsRoomForAreWaitedForAsTheyAre) {
  launch(known(), stream_);
  std::vector<CUevent> events;
  for (int i = 0; i < 10'000; ++i) {
    events.push_back(driver_.make_event());
    ASSERT_EQ(::cuEventRecord(events.back(), stream_), CUDA_SUCCESS);
  }
  event_ = events.back();
  EXPECT_EQ(waited(), "value event");
  for (CUevent event : events) ASSERT_EQ(::cuStreamWaitEvent(other_, event, 0), CUDA_SUCCESS);
  slice().gate = 1;
  driver_.run();
  EXPECT_EQ(driver_.queue(other_), "");
}

// --- What is waited for always comes ---

TEST_F(EventOrderTest, BatchNumbersMayWrap) {
  slice().gate = 1;
  launch(known(), stream_);
  ::cuMemcpyHtoDAsync_v2(0, nullptr, 1, stream_);
  driver_.run();
  shared(stream_).inserted = ~0U;
  end_all(shared(stream_));
  existing_lane(stream_, false)->batch = ~0U;
  slice().gate = 0;
  record_behind_batch(stream_);
  ASSERT_EQ(shared(stream_).inserted, 0U);
  EXPECT_EQ(waited(), "value event");
  driver_.run();
  EXPECT_EQ(driver_.queue(other_), "value event");
  slice().gate = 1;
  driver_.run();
  EXPECT_EQ(driver_.queue(other_), "");
}

TEST_F(EventOrderTest, AnEventOfManyBatchesAgoHasHappened) {
  record_behind_batch(stream_);
  GatedLane& lane = *existing_lane(stream_, false);
  const uint32_t batch = lane.batch;
  // Also where the comparison of the GPU would take the old number for one that is to come.
  for (const uint32_t later : {1U << 20, 3U << 19, 1U << 31, (1U << 31) + (1U << 20)}) {
    lane.batch = batch + later;
    lane.lane.load()->passed = batch + later;
    wait_for_batch_of(event_, other_, false);
    EXPECT_EQ(driver_.queue(other_), "") << later;
  }
  lane.batch = batch;
  lane.lane.load()->passed = batch - 1;
}

TEST_F(EventOrderTest, ALaneThatIsUsedAgainHoldsUpNobody) {
  record_behind_batch(stream_);
  GatedLane* lane = existing_lane(stream_, false);
  EXPECT_EQ(::cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  EXPECT_EQ(waited(), "value event") << "what is queued still comes";
  end_all(*lane->lane.load());
  CUstream next = driver_.make_stream();
  launch(known(), next);
  ASSERT_EQ(existing_lane(next, false), lane);
  driver_.run();
  EXPECT_EQ(driver_.queue(other_).substr(0, 5), "event") << "the value is behind it";
  EXPECT_EQ(::cuStreamWaitEvent(next, event_, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.queue(next), "gate passed launch done event");
}

TEST_F(EventOrderTest, ALaneThatWasGivenUpHoldsUpNobody) {
  record_behind_batch(stream_);
  driver_.refuse_memory_operations = true;
  ::cuMemcpyHtoDAsync_v2(0, nullptr, 1, stream_);
  driver_.refuse_memory_operations = false;
  ASSERT_EQ(state(shared(stream_)), wire::LaneState::kDead);
  EXPECT_EQ(waited(), "event");
}

TEST_F(EventOrderTest, ABatchThatCouldNotBeginHoldsUpNobody) {
  driver_.refuse_memory_operations = true;
  record_behind_batch(stream_);
  driver_.refuse_memory_operations = false;
  EXPECT_EQ(waited(), "event");
}

TEST_F(EventOrderTest, NothingWaitsForALaneOfAnotherContext) {
  CUcontext elsewhere = driver_.make_context();
  CUstream far = driver_.make_stream();
  launch(known(), far);
  ASSERT_EQ(::cuEventRecord(event_, far), CUDA_SUCCESS);
  g_cuda.cuCtxPushCurrent_v2(context_);
  EXPECT_EQ(waited(), "event");
  EXPECT_EQ(::cuCtxDestroy_v2(elsewhere), CUDA_SUCCESS);
  EXPECT_EQ(waited(), "event event") << "and not when it is gone";
}

TEST_F(EventOrderTest, NothingWaitsForALaneOfAPageThatWasReplaced) {
  record_behind_batch(stream_);
  wire::LanesPage* page = gate_->page.exchange(nullptr);
  EXPECT_EQ(waited(), "event");
  gate_->page = page;
}

TEST_F(EventOrderTest, WaitsGoAheadWhereTheDriverRefusesTheValue) {
  record_behind_batch(stream_);
  driver_.refuse_memory_operations = true;
  EXPECT_EQ(waited(), "event");
  driver_.refuse_memory_operations = false;
}

// --- Captures ---

TEST_F(EventOrderTest, NothingIsAddedWhileSomethingIsCaptured) {
  record_behind_batch(stream_);
  CUstream captured = driver_.make_stream();
  ASSERT_EQ(::cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(waited(), "event");
  ASSERT_EQ(::cuEventRecord(event_, captured), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(::cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
  EXPECT_EQ(waited(), "event event") << "it was recorded in a capture, which nobody waits for";
}

}  // namespace
}  // namespace divvy::shim
