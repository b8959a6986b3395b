#include "store/submission.h"

#include <gtest/gtest.h>

#include "store/job_table.h"
#include "store/testing.h"

namespace divvy::store {
namespace {

class SubmissionTest : public TableTest {
 protected:
  [[nodiscard]] Result<Submitted> try_submit(const Submission& submission) const {
    Result<Submitted> result;
    const Status done = database_->commit([&](Connection& connection) -> Status {
      result = submit(connection, submission);
      if (!result) return err(result.error());
      return {};
    });
    if (!done) return err(done.error());
    return result;
  }
  [[nodiscard]] std::size_t jobs() const {
    return read([](Connection& connection) { return JobTable(connection).unfinished(); }).size();
  }
  static Submission submission(std::optional<std::string> key = {}) {
    return {.owner = "ada",
            .spec = test_spec(),
            .at = at_second(50),
            .reason = "submitted by ada",
            .key = std::move(key),
            .fingerprint = "f"};
  }
};

TEST_F(SubmissionTest, BecomesAJobThatIsQueued) {
  const auto done = try_submit(submission());
  ASSERT_TRUE(done.has_value()) << done.error().message;
  ASSERT_EQ(done->jobs.size(), 1U);
  const model::Job& job = done->jobs.front();
  EXPECT_EQ(job.id, model::JobId(1));
  EXPECT_EQ(job.state, model::JobState::kQueued);
  EXPECT_EQ(
      job.history,
      (std::vector<model::JobStep>{{at_second(50), model::JobState::kQueued, "submitted by ada"}}));
  EXPECT_EQ(read([](Connection& connection) { return JobTable(connection).find(model::JobId(1)); }),
            job);
}

TEST_F(SubmissionTest, AnArrayBecomesItsTasks) {
  ASSERT_TRUE(try_submit(submission()).has_value());
  Submission array = submission();
  array.spec.array = model::ArraySpec{.first = 1, .last = 6, .step = 2, .at_once = 2};
  const auto done = try_submit(array);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  ASSERT_EQ(done->jobs.size(), 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const model::Job& job = done->jobs[i];
    EXPECT_EQ(job.id, model::JobId(2 + i));
    EXPECT_FALSE(job.spec.array.has_value());
    EXPECT_EQ(job.task,
              (model::ArrayTask{.array = model::JobId(2), .index = 1 + 2 * i, .at_once = 2}));
  }
}

TEST_F(SubmissionTest, AHugeArrayOfLargeJobsIsRefused) {
  Submission array = submission();
  array.spec.array = model::ArraySpec{.first = 1, .last = 10'000};
  array.spec.environment["LARGE"] = std::string(100'000, 'x');
  const auto refused = try_submit(array);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().message.starts_with("array: ")) << refused.error().message;
  EXPECT_EQ(jobs(), 0U);
}

TEST_F(SubmissionTest, TheSameKeyGivesTheJobsOfTheFirstTime) {
  Submission array = submission("key-1");
  array.spec.array = model::ArraySpec{.first = 0, .last = 2};
  const auto first = try_submit(array);
  const auto second = try_submit(array);
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_FALSE(first->repeated);
  EXPECT_TRUE(second->repeated);
  EXPECT_EQ(second->jobs, first->jobs);
  EXPECT_EQ(jobs(), 3U);
}

TEST_F(SubmissionTest, AKeyBelongsToOneOwnerAndOneRequest) {
  ASSERT_TRUE(try_submit(submission("key-1")).has_value());
  Submission other = submission("key-1");
  other.fingerprint = "g";
  EXPECT_EQ(try_submit(other).error().code, ErrorCode::kFailedPrecondition);
  other.owner = "bob";
  const auto bobs = try_submit(other);
  ASSERT_TRUE(bobs.has_value());
  EXPECT_FALSE(bobs->repeated);
  EXPECT_EQ(try_submit(submission(std::string(256, 'k'))).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(try_submit(submission("")).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(SubmissionTest, AKeyThatWasForgottenIsNew) {
  ASSERT_TRUE(try_submit(submission("key-1")).has_value());
  commit([](Connection& connection) { return forget_keys(connection, at_second(50)); });
  EXPECT_TRUE(try_submit(submission("key-1"))->repeated);
  commit([](Connection& connection) { return forget_keys(connection, at_second(51)); });
  EXPECT_FALSE(try_submit(submission("key-1"))->repeated);
}

TEST_F(SubmissionTest, WhatCannotBeTakenLeavesNoKeyBehind) {
  Submission waiting = submission("key-1");
  waiting.spec.after = {{model::JobId(9), model::DependencyKind::kEnded}};
  const auto refused = try_submit(waiting);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(refused.error().message.starts_with("after[0].job: ")) << refused.error().message;
  EXPECT_FALSE(try_submit(submission("key-1"))->repeated);
}

}  // namespace
}  // namespace divvy::store
