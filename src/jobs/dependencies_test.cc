#include "jobs/dependencies.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::DependencyKind;
using model::JobId;
using model::JobState;
using Answer = Dependencies::Answer;

model::Job job(std::uint64_t id, std::vector<model::Dependency> after = {}) {
  model::JobSpec spec = testing::spec(300);
  spec.after = std::move(after);
  return {JobId(id), "ada", std::move(spec), testing::at(0)};
}

model::Job in_state(model::Job job, JobState state) {
  job.state = state;
  return job;
}

Answer after_end(JobState state, DependencyKind kind) {
  Dependencies dependencies;
  dependencies.add(job(1));
  const model::Job waiting = job(2, {{JobId(1), kind}});
  dependencies.add(waiting);
  EXPECT_EQ(dependencies.outlook(waiting.spec).answer, Answer::kWaits);
  EXPECT_EQ(dependencies.finish(in_state(job(1), state)), std::vector<JobId>{JobId(2)});
  return dependencies.outlook(waiting.spec).answer;
}

TEST(Dependencies, EachKindIsMetByItsEnd) {
  EXPECT_EQ(after_end(JobState::kSucceeded, DependencyKind::kSucceeded), Answer::kMet);
  EXPECT_EQ(after_end(JobState::kFailed, DependencyKind::kSucceeded), Answer::kNever);
  EXPECT_EQ(after_end(JobState::kCancelled, DependencyKind::kSucceeded), Answer::kNever);
  EXPECT_EQ(after_end(JobState::kSucceeded, DependencyKind::kFailed), Answer::kNever);
  EXPECT_EQ(after_end(JobState::kFailed, DependencyKind::kFailed), Answer::kMet);
  EXPECT_EQ(after_end(JobState::kCancelled, DependencyKind::kFailed), Answer::kNever);
  EXPECT_EQ(after_end(JobState::kCancelled, DependencyKind::kEnded), Answer::kMet);
}

TEST(Dependencies, AnArrayIsWaitedForAsAWhole) {
  Dependencies dependencies;
  std::vector<model::Job> tasks;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    tasks.push_back(job(i));
    tasks.back().task = model::ArrayTask{JobId(1), static_cast<std::uint32_t>(i)};
    dependencies.add(tasks.back());
  }
  const model::Job all = job(9, {{JobId(1)}});
  const model::Job one = job(10, {{JobId(2)}});
  dependencies.add(all);
  dependencies.add(one);
  EXPECT_EQ(dependencies.finish(in_state(tasks[1], JobState::kSucceeded)),
            (std::vector<JobId>{JobId(9), JobId(10)}));
  EXPECT_EQ(dependencies.outlook(one.spec).answer, Answer::kMet);
  EXPECT_EQ(dependencies.outlook(all.spec).answer, Answer::kWaits);
  (void)dependencies.finish(in_state(tasks[0], JobState::kSucceeded));
  (void)dependencies.finish(in_state(tasks[2], JobState::kSucceeded));
  EXPECT_EQ(dependencies.outlook(all.spec).answer, Answer::kMet);
}

TEST(Dependencies, AcceptsJobsThatEndedBefore) {
  Dependencies dependencies;
  const model::Job waiting = job(9, {{JobId(1)}, {JobId(2), DependencyKind::kEnded}});
  EXPECT_EQ(dependencies.outlook(waiting.spec).answer, Answer::kNever);
  dependencies.add(FinishedJob{JobId(1), std::nullopt, JobState::kSucceeded});
  dependencies.add(FinishedJob{JobId(2), std::nullopt, JobState::kFailed});
  EXPECT_EQ(dependencies.outlook(waiting.spec).answer, Answer::kMet);
}

TEST(Dependencies, AreForgottenWhenNobodyWaits) {
  Dependencies dependencies;
  dependencies.add(job(1));
  const model::Job waiting = job(2, {{JobId(1)}});
  dependencies.add(waiting);
  (void)dependencies.finish(in_state(job(1), JobState::kSucceeded));
  dependencies.forget(JobId(1));
  EXPECT_TRUE(dependencies.knows(JobId(1)));
  (void)dependencies.finish(in_state(waiting, JobState::kSucceeded));
  dependencies.forget(JobId(1));
  EXPECT_FALSE(dependencies.knows(JobId(1)));
}

TEST(Dependencies, SayWhatIsWaitedFor) {
  Dependencies dependencies;
  dependencies.add(job(1));
  EXPECT_EQ(dependencies.outlook(job(2, {{JobId(1)}}).spec).text, "it waits for job 1 to succeed");
  EXPECT_EQ(dependencies.outlook(job(2, {{JobId(7)}}).spec).text,
            "it waited for job 7, which is not known any more");
}

}  // namespace
}  // namespace divvy::jobs
