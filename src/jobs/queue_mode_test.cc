// Jobs that take turns and jobs that run side by side through MPS.
#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using model::JobState;
using testing::Desk;
using testing::fleet;
using testing::spec;

TEST(Queue, AGpuIsInOneModeAtATime) {
  Desk desk({}, fleet(1, 2));
  const auto in_mode = [](std::uint32_t share, model::GpuMode mode) {
    model::JobSpec wanted = spec(share);
    wanted.mode = mode;
    return wanted;
  };
  const auto gpu = [&desk](JobId id) { return desk.job(id).members.at(0).slices.at(0).gpu(); };
  const JobId turns = desk.submit(in_mode(300, model::GpuMode::kTimeslice));
  desk.run();
  const JobId mps = desk.submit(in_mode(300, model::GpuMode::kMps));
  const JobId beside = desk.submit(in_mode(300, model::GpuMode::kMps));
  desk.run();
  EXPECT_NE(gpu(turns), gpu(mps));
  EXPECT_EQ(gpu(mps), gpu(beside));
  const JobId more_turns = desk.submit(in_mode(600, model::GpuMode::kTimeslice));
  const JobId too_much = desk.submit(in_mode(200, model::GpuMode::kTimeslice));
  desk.run();
  EXPECT_EQ(gpu(more_turns), gpu(turns));
  EXPECT_EQ(desk.state(too_much), JobState::kQueued) << "the other GPU is in the other mode";
  desk.end(mps);
  desk.end(beside);
  desk.run();
  EXPECT_EQ(desk.state(too_much), JobState::kRunning);
}

}  // namespace
}  // namespace divvy::jobs
