// For tests of the gates: this process is a gated tenant on a driver that only keeps what it is
// given. The test is the watcher.
#pragma once

#include <gtest/gtest.h>

#include "shim/cost.h"
#include "shim/fake_driver.h"
#include "shim/gate.h"
#include "shim/gate_context.h"
#include "shim/joined_tenant.h"
#include "shim/lane_table.h"
#include "shim/watcher.h"

namespace divvy::shim {

constexpr uint32_t kBatchNs = 2'000'000;

class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    slice().mode = static_cast<uint32_t>(wire::Mode::kGated);
    slice().batch_ns = kBatchNs;
    slice().gate = 1;
    slice().flags = 0;
    joined_tenant().control().any_gated = 1;
    watcher_is_simulated();
    context_ = driver_.make_context();
    stream_ = driver_.make_stream();
    gate_ = find_gate_context(context_, true);
  }
  ~GateTest() override {
    ::cuCtxDestroy_v2(context_);
    EXPECT_EQ(driver_.misuse, "");
    EXPECT_EQ(g_open_batches, 0);
    joined_tenant().control().any_gated = 0;
  }
  GateTest(const GateTest&) = delete;
  GateTest& operator=(const GateTest&) = delete;

  static wire::ControlGpu& slice() { return joined_tenant().control().gpu[0]; }
  static const wire::Lane& lane(CUstream stream, bool per_thread = false) {
    return *existing_lane(stream, per_thread)->lane.load();
  }
  static wire::LaneState state(const wire::Lane& lane) {
    return static_cast<wire::LaneState>(lane.state.load());
  }
  // A kernel that no other test has.
  CUfunction kernel(uintptr_t number = 0) {
    const auto test =
        reinterpret_cast<uintptr_t>(::testing::UnitTest::GetInstance()->current_test_info());
    return reinterpret_cast<CUfunction>(test + number);
  }
  static void launch(CUfunction function, CUstream stream) {
    EXPECT_EQ(::cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
              CUDA_SUCCESS);
  }
  // Predicted at `ns` from now on.
  static CUfunction measured(CUfunction function, uint64_t ns) {
    CostEntry* entry = cost_of(kernel_key(function, 1));
    for (int i = 0; i < 4; ++i) {
      sample_begun(entry);
      learn(entry, ns);
    }
    return function;
  }

  FakeDriver driver_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  GateContext* gate_ = nullptr;
};

}  // namespace divvy::shim
