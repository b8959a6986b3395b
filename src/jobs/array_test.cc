#include "jobs/array.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

TEST(Array, ExpandsASpecWithoutArrayToOneJob) {
  const auto jobs = expand(model::JobId(7), "ada", testing::spec(300), testing::at(5));
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].id, model::JobId(7));
  EXPECT_FALSE(jobs[0].task.has_value());
  EXPECT_EQ(jobs[0].history.size(), 1u);
}

TEST(Array, TasksHaveNumbersAndIndicesOfTheirOwn) {
  model::JobSpec spec = testing::spec(300);
  spec.array = model::ArraySpec{1, 7, 3, 2};
  EXPECT_EQ(jobs_of(spec), 3u);
  const auto jobs = expand(model::JobId(10), "ada", spec, testing::at(5));
  ASSERT_EQ(jobs.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(jobs[i].id, model::JobId(10 + i));
    EXPECT_EQ(jobs[i].task, (model::ArrayTask{model::JobId(10), 1 + 3 * i, 2}));
    EXPECT_FALSE(jobs[i].spec.array.has_value());
  }
}

}  // namespace
}  // namespace divvy::jobs
