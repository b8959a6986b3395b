#include "model/job.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>

namespace divvy::model {
namespace {

constexpr std::array kStates{JobState::kQueued,   JobState::kStarting,  JobState::kRunning,
                             JobState::kStopping, JobState::kSuspended, JobState::kSucceeded,
                             JobState::kFailed,   JobState::kCancelled};

WallTime at(int second) { return WallTime(std::chrono::seconds(second)); }

Job new_job() {
  JobSpec spec(*Request::parse("0.3"));
  spec.command = {"true"};
  return {JobId(17), "ada", std::move(spec), at(0)};
}

TEST(Job, RecordsEveryStateTransition) {
  Job job = new_job();
  EXPECT_EQ(job.state, JobState::kQueued);
  EXPECT_TRUE(job.become(JobState::kStarting, at(1), "placed on gpu0").has_value());
  EXPECT_TRUE(job.become(JobState::kRunning, at(2), "").has_value());
  EXPECT_TRUE(job.become(JobState::kSucceeded, at(9), "exit code 0").has_value());
  EXPECT_EQ(job.started, at(2));
  EXPECT_EQ(job.ended, at(9));
  EXPECT_EQ(job.history, (std::vector<JobStep>{{at(1), JobState::kStarting, "placed on gpu0"},
                                               {at(2), JobState::kRunning, ""},
                                               {at(9), JobState::kSucceeded, "exit code 0"}}));
}

TEST(Job, AForbiddenStepChangesNothingAndSaysSo) {
  Job job = new_job();
  const Job before = job;
  const auto status = job.become(JobState::kSucceeded, at(1), "");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error(), (Error{ErrorCode::kFailedPrecondition,
                                   "job 17 is queued and cannot become succeeded"}));
  EXPECT_EQ(job, before);
}

TEST(Job, IsStoppedForAReasonUntilItHasStopped) {
  Job job = new_job();
  ASSERT_TRUE(job.become(JobState::kStarting, at(1), "").has_value());
  ASSERT_TRUE(job.become(JobState::kRunning, at(2), "").has_value());
  ASSERT_TRUE(job.become(JobState::kStopping, at(3), "preempted").has_value());
  job.stopping = StopReason::kPreempted;
  ASSERT_TRUE(job.become(JobState::kQueued, at(4), "").has_value());
  EXPECT_FALSE(job.stopping.has_value());
  EXPECT_EQ(job.started, at(2));
  ASSERT_TRUE(job.become(JobState::kStarting, at(5), "").has_value());
  EXPECT_FALSE(job.started.has_value());
  EXPECT_FALSE(job.ended.has_value());
}

TEST(Job, ARunningJobStopsBeforeItIsCancelled) {
  for (const JobState from : kStates) {
    const bool at_once =
        from == JobState::kQueued || from == JobState::kSuspended || from == JobState::kStopping;
    EXPECT_EQ(may_become(from, JobState::kCancelled), at_once) << to_string(from);
  }
  EXPECT_TRUE(may_become(JobState::kStarting, JobState::kStopping));
  EXPECT_TRUE(may_become(JobState::kRunning, JobState::kStopping));
}

TEST(Job, FinishedStatesHaveNoTransitions) {
  for (const JobState from : kStates) {
    EXPECT_FALSE(may_become(from, from));
    EXPECT_FALSE(is_finished(from) && is_active(from));
    for (const JobState to : kStates) {
      EXPECT_FALSE(is_finished(from) && may_become(from, to));
    }
  }
}

TEST(Job, StatesAndReasonsAreReadByName) {
  for (const JobState state : kStates) EXPECT_EQ(parse_job_state(to_string(state)), state);
  EXPECT_FALSE(parse_job_state("sleeping").has_value());
  for (int i = 0; i <= static_cast<int>(StopReason::kPlaceLost); ++i) {
    const auto reason = static_cast<StopReason>(i);
    EXPECT_EQ(parse_stop_reason(to_string(reason)), reason);
  }
  EXPECT_FALSE(parse_stop_reason("bored").has_value());
}

TEST(MemberEnd, SucceedsOnlyWithCodeZeroAndNoSignal) {
  EXPECT_TRUE((MemberEnd{at(1), 0, 0, ""}.succeeded()));
  EXPECT_FALSE((MemberEnd{at(1), 1, 0, ""}.succeeded()));
  EXPECT_FALSE((MemberEnd{at(1), 0, 9, ""}.succeeded()));
}

RC_GTEST_PROP(JobProperty, OnlyAllowedStepsHappenAndEachIsWrittenDown, ()) {
  Job job = new_job();
  const auto steps = *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::inRange<std::size_t>(0, kStates.size()));
  std::size_t taken = 0;
  for (const std::size_t step : steps) {
    const JobState before = job.state;
    const bool allowed = may_become(before, kStates[step]);
    RC_ASSERT(job.become(kStates[step], at(1), "").has_value() == allowed);
    RC_ASSERT(job.state == (allowed ? kStates[step] : before));
    taken += allowed ? 1 : 0;
    RC_ASSERT(job.history.size() == taken);
    RC_ASSERT(job.ended.has_value() == is_finished(job.state));
  }
}

}  // namespace
}  // namespace divvy::model
