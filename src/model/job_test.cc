#include "model/job.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>

namespace divvy::model {
namespace {

constexpr std::array kStates{JobState::kQueued,    JobState::kStarting, JobState::kRunning,
                             JobState::kSucceeded, JobState::kFailed,   JobState::kCancelled};

Job new_job() { return *Job::create(JobId(17), "train", *Request::parse("0.3")); }

TEST(Job, BeginsQueuedAndRunsToItsEnd) {
  Job job = new_job();
  EXPECT_EQ(job.state(), JobState::kQueued);
  EXPECT_TRUE(job.become(JobState::kStarting).has_value());
  EXPECT_TRUE(job.become(JobState::kRunning).has_value());
  EXPECT_TRUE(job.become(JobState::kSucceeded).has_value());
}

TEST(Job, AForbiddenStepChangesNothingAndSaysSo) {
  Job job = new_job();
  const auto status = job.become(JobState::kSucceeded);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error(), (Error{ErrorCode::kFailedPrecondition,
                                   "job train (17) is queued and cannot become succeeded"}));
  EXPECT_EQ(job.state(), JobState::kQueued);
}

TEST(Job, ARunningOneMayLoseItsPlace) {
  EXPECT_TRUE(may_become(JobState::kRunning, JobState::kQueued));
  EXPECT_TRUE(may_become(JobState::kStarting, JobState::kQueued));
}

TEST(Job, FinishedIsFinishedAndEverythingElseCanBeCancelled) {
  for (const JobState from : kStates) {
    EXPECT_EQ(may_become(from, JobState::kCancelled), !is_finished(from));
    EXPECT_FALSE(may_become(from, from));
    for (const JobState to : kStates) {
      if (is_finished(from)) {
        EXPECT_FALSE(may_become(from, to));
      }
    }
  }
}

TEST(Job, StatesAreReadByName) {
  for (const JobState state : kStates) EXPECT_EQ(parse_job_state(to_string(state)), state);
  EXPECT_FALSE(parse_job_state("sleeping").has_value());
}

TEST(Job, RefusesBadNames) {
  EXPECT_FALSE(Job::create(JobId(1), "../etc", *Request::parse("1")).has_value());
}

RC_GTEST_PROP(JobProperty, OnlyAllowedStepsHappen, ()) {
  Job job = new_job();
  const auto steps = *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::inRange<std::size_t>(0, kStates.size()));
  for (const std::size_t step : steps) {
    const JobState before = job.state();
    const bool allowed = may_become(before, kStates[step]);
    RC_ASSERT(job.become(kStates[step]).has_value() == allowed);
    RC_ASSERT(job.state() == (allowed ? kStates[step] : before));
  }
}

}  // namespace
}  // namespace divvy::model
