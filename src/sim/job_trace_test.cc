#include "sim/job_trace.h"

#include <gtest/gtest.h>

namespace divvy::sim {
namespace {

constexpr std::string_view kHeader =
    "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\n";

Result<JobTrace> parse(const std::string& rows, std::string_view header = kHeader) {
  auto table = CsvTable::parse(std::string(header) + rows, "t.csv");
  if (!table) return err(table.error());
  return parse_job_trace(*table, {});
}
std::string refusal(const std::string& rows, std::string_view header = kHeader) {
  const auto trace = parse(rows, header);
  return trace ? "accepted" : trace.error().message;
}

TEST(JobTrace, ReadsJobsAndSortsThemBySubmission) {
  const auto trace = parse("x,4,2500,1000,bert,200\ny,1,500,10,dqn,0.5\nz,2,2500,1,a2c,1\n");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  ASSERT_EQ(trace->jobs.size(), 3U);
  EXPECT_EQ(trace->jobs[0].id, "y");
  EXPECT_EQ(trace->jobs[0].submitted_s, 0.5);
  EXPECT_EQ(trace->jobs[1].id, "x");
  EXPECT_EQ(trace->jobs[1].gpus, 4U);
  EXPECT_EQ(trace->jobs[1].model, "bert");
  EXPECT_DOUBLE_EQ(trace->jobs[1].work_s, 1000 * 0.2 * 1.015);
  EXPECT_EQ(trace->jobs[2].id, "z");
}

TEST(JobTrace, NeedsNoIdsAndLeavesOtherColumnsAlone) {
  const auto trace =
      parse("7,m,1,0,2,0.5,5,6\n8,m,1,0,2,0,5,6\n",
            "colour,model_name,num_gpu,submit_time,iterations,resource_time_0,resource_time_1,"
            "iteration_time\n");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->jobs[0].id, "0");
  EXPECT_EQ(trace->jobs[1].id, "1");
  EXPECT_EQ(trace->jobs[0].resource_ms, (std::array<double, 3>{0.5, 5, 0}));
}

TEST(JobTrace, RefusesWhatCannotBeReplayed) {
  EXPECT_EQ(refusal("a,1,0,1,m,1\na,1,0,1,m,1\n"),
            "t.csv:3: job_id \"a\" was already used on line 2; give every job an id of its own");
  EXPECT_EQ(refusal("a,0,0,1,m,1\n"), "t.csv:2: num_gpu is \"0\"; it has to be at least 1");
  EXPECT_EQ(refusal("a,65,0,1,m,1\n"),
            "t.csv:2: num_gpu is 65, but the cluster has 64 GPUs (8 nodes of 8); use a larger one");
  EXPECT_EQ(refusal("a,1,-5,1,m,1\n"),
            "t.csv:2: submit_time is \"-5\"; it has to be a whole number that is not negative");
  EXPECT_EQ(refusal("a,1,0,99999999999999999999,m,1\n"),
            "t.csv:2: iterations is \"99999999999999999999\"; it has to be at most "
            "9007199254740992");
  EXPECT_EQ(refusal("a,1,0,1,m,0\n"),
            "t.csv:2: iteration_time is \"0\", so the job has no work; it has to be above 0");
  EXPECT_EQ(refusal("a,1,0,9000000000000000,m,1000\n"),
            "t.csv:2: iterations x iteration_time is more than a century of work; are the units "
            "right (iteration_time is in milliseconds)?");
  EXPECT_EQ(refusal(" ,1,0,1,m,1\n"), "t.csv:2: job_id is empty; give every job an id of its own");
  EXPECT_EQ(refusal(""), "t.csv:1: there are no jobs below the column names");
  EXPECT_EQ(refusal("", "num_gpu,submit_time\n"),
            "t.csv:1: there is no column \"iterations\"; the columns are num_gpu, submit_time");
}

TEST(JobTrace, RefusesAClusterWithoutGpus) {
  const auto table = CsvTable::parse(std::string(kHeader) + "a,1,0,1,m,1\n", "t.csv");
  EXPECT_FALSE(parse_job_trace(*table, {.nodes = 0}).has_value());
  EXPECT_FALSE(parse_job_trace(*table, {.nodes = 70'000, .gpus_per_node = 70'000}).has_value());
}

TEST(RestartCost, FollowsModelAndSize) {
  EXPECT_EQ(restart_cost_s(1, "vgg16"), 7);
  EXPECT_EQ(restart_cost_s(8, "a2c"), 46);
  EXPECT_EQ(restart_cost_s(16, "vgg19"), 10);
  EXPECT_EQ(restart_cost_s(4, "shufflenet_v2_x1_0"), 5);
  EXPECT_EQ(restart_cost_s(1, "something else"), 10);
  EXPECT_EQ(restart_cost_s(3, "dqn"), restart_cost_s(4, "dqn"));
  EXPECT_EQ(restart_cost_s(100, "dqn"), restart_cost_s(32, "dqn"));
}

}  // namespace
}  // namespace divvy::sim
