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
  static Submission submission(std::optional<std::string> key = {}, std::size_t count = 1) {
    Submission made = test_submission(count);
    made.key = std::move(key);
    return made;
  }
  // With something changed in every job.
  template <typename Change>
  static Submission changed(Submission before, const Change& change) {
    before.make = [make = before.make, change](model::JobId first) {
      std::vector<model::Job> jobs = make(first);
      for (model::Job& job : jobs) change(job);
      return jobs;
    };
    return before;
  }
};

TEST_F(SubmissionTest, GetsTheNextNumbers) {
  const auto one = try_submit(submission());
  ASSERT_TRUE(one.has_value()) << one.error().message;
  EXPECT_EQ(one->jobs, (std::vector{test_job(1)}));
  const auto three = try_submit(submission({}, 3));
  ASSERT_TRUE(three.has_value()) << three.error().message;
  EXPECT_EQ(three->jobs, (std::vector{test_job(2), test_job(3), test_job(4)}));
  EXPECT_EQ(read([](Connection& connection) { return JobTable(connection).unfinished(); }).size(),
            4U);
}

TEST_F(SubmissionTest, AHugeArrayOfLargeJobsIsRefused) {
  const auto refused = try_submit(changed(submission({}, 1000), [](model::Job& job) {
    job.spec.environment["LARGE"] = std::string(100'000, 'x');
  }));
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().message.starts_with("array: ")) << refused.error().message;
  EXPECT_EQ(jobs(), 0U);
}

TEST_F(SubmissionTest, TheSameIdempotencyKeyReturnsTheSameJobs) {
  const auto first = try_submit(submission("key-1", 3));
  const auto second = try_submit(submission("key-1", 3));
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

TEST_F(SubmissionTest, ARefusedSubmissionStoresNoKey) {
  const auto refused = try_submit(changed(submission("key-1"), [](model::Job& job) {
    job.spec.after = {{model::JobId(9), model::DependencyKind::kEnded}};
  }));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(refused.error().message.starts_with("after[0].job: ")) << refused.error().message;
  EXPECT_FALSE(try_submit(submission("key-1"))->repeated);
}

}  // namespace
}  // namespace divvy::store
