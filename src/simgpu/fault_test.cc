#include "simgpu/fault.h"

#include <thread>

#include "abi/nvml.h"
#include "simgpu/state_fixture.h"

namespace divvy::simgpu {
namespace {

using FaultTest = StateFixture;

XidEvent last_event(Gpu& gpu) { return gpu.xid[gpu.xid_sequence.load() % kXidRing]; }

TEST_F(FaultTest, AnXidIsNumberedAndAnnounced) {
  start("2");
  const uint32_t events = state().shared().events.load();
  inject_xid(state(), 1, 31);
  inject_xid(state(), 1, 43);
  EXPECT_EQ(gpu(1).xid_sequence.load(), 2U);
  EXPECT_EQ(last_event(gpu(1)).xid, 43U);
  EXPECT_EQ(last_event(gpu(1)).sequence, 2U);
  EXPECT_EQ(last_event(gpu(1)).type, nvmlEventTypeXidCriticalError);
  EXPECT_EQ(state().shared().events.load(), events + 2);
  EXPECT_EQ(gpu(0).xid_sequence.load(), 0U);
}

TEST_F(FaultTest, AnXidWakesWhoWaitsForTheSequence) {
  start("1");
  std::thread waiter([&] {
    while (gpu(0).xid_sequence.load() == 0) futex_wait(gpu(0).xid_sequence, 0, nullptr);
  });
  inject_xid(state(), 0, 13);
  waiter.join();
  EXPECT_EQ(gpu(0).xid_sequence.load(), 1U);
}

TEST_F(FaultTest, ALostGpuReportsXid79AndComesBack) {
  start("1");
  lose_gpu(state(), 0);
  EXPECT_EQ(gpu(0).faults.lost.load(), 1U);
  EXPECT_EQ(last_event(gpu(0)).xid, 79U);
  restore_gpu(state(), 0);
  EXPECT_EQ(gpu(0).faults.lost.load(), 0U);
}

TEST_F(FaultTest, AnUncorrectedErrorEndsContextsAndReportsXid48) {
  start("1xH200,1xT4");
  inject_uncorrected_ecc(state(), 0);
  EXPECT_EQ(gpu(0).faults.ecc_uncorrected.load(), 1U);
  EXPECT_EQ(gpu(0).faults.ecc_epoch.load(), 1U);
  EXPECT_EQ(gpu(0).faults.ecc_pending.load(), 1U);
  EXPECT_EQ(gpu(0).faults.remap_pending.load(), 1U);
  EXPECT_EQ(last_event(gpu(0)).xid, 48U);
  inject_uncorrected_ecc(state(), 1);
  EXPECT_EQ(gpu(1).faults.remap_pending.load(), 0U) << "Turing does not remap rows";
}

TEST_F(FaultTest, CorrectedErrorsAreOnlyCounted) {
  start("1");
  inject_corrected_ecc(state(), 0, 5);
  EXPECT_EQ(gpu(0).faults.ecc_corrected.load(), 5U);
  EXPECT_EQ(gpu(0).faults.ecc_pending.load(), 0U);
  EXPECT_EQ(last_event(gpu(0)).type, nvmlEventTypeSingleBitEccError);
}

TEST_F(FaultTest, AHungGpuHoldsItsCallersUntilItIsLetGo) {
  start("1");
  hang_gpu(state(), 0);
  std::atomic<bool> through{false};
  std::thread caller([&] {
    wait_while_hung(gpu(0));
    through = true;
  });
  EXPECT_FALSE(through.load());
  unhang_gpu(state(), 0);
  caller.join();
  EXPECT_TRUE(through.load());
}

TEST_F(FaultTest, TroubleWakesTheProcessesOnTheMachine) {
  start("1");
  const int slot = hold(0, 1);
  const uint32_t before = state().shared().slot[slot].wake.load();
  lose_gpu(state(), 0);
  EXPECT_GT(state().shared().slot[slot].wake.load(), before);
}

TEST_F(FaultTest, ClearTakesEverythingBack) {
  start("1");
  lose_gpu(state(), 0);
  hang_gpu(state(), 0);
  inject_uncorrected_ecc(state(), 0);
  inject_corrected_ecc(state(), 0, 9);
  set_temperature(state(), 0, 99);
  set_row_remap(state(), 0, {.remapped = 3, .pending = true, .failed = true});
  fail_queries(state(), 0, QueryClass::kPower, NVML_ERROR_UNKNOWN);
  EXPECT_EQ(describe_faults(gpu(0)).size(), 9U);
  clear_faults(state(), 0);
  EXPECT_TRUE(describe_faults(gpu(0)).empty());
}

TEST_F(FaultTest, EveryQueryClassHasAName) {
  const auto names = query_class_names();
  ASSERT_EQ(names.size(), static_cast<size_t>(QueryClass::kCount));
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(query_class_named(names[i]), static_cast<QueryClass>(i)) << names[i];
  }
  EXPECT_FALSE(query_class_named("mood"));
}

}  // namespace
}  // namespace divvy::simgpu
