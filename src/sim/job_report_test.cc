#include "sim/job_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace divvy::sim {
namespace {

JobTrace trace_of(std::size_t jobs) {
  JobTrace trace;
  trace.name = "t.csv";
  trace.jobs.resize(jobs);
  return trace;
}

JobSummary summary_of(std::string policy) {
  JobSummary summary;
  summary.policy = std::move(policy);
  summary.trace = "a \"b\".csv";
  summary.jobs = 3;
  summary.avg_jct_s = 1234567.89;
  summary.p99_jct_s = 10;
  summary.makespan_s = 100.5;
  summary.starts = 4;
  summary.events = 7;
  return summary;
}

TEST(JobSummary, TakesTheProtocolsAverageAndPercentile) {
  JobTrace trace = trace_of(200);
  ReplayResult result;
  result.jobs.resize(200);
  for (std::size_t i = 0; i < 200; ++i) {
    trace.jobs[i].submitted_s = 5;
    result.jobs[i].ended_s = 5.0 + static_cast<double>(199 - i);
    result.jobs[i].starts = 2;
  }
  const JobSummary summary = summarize(trace, result);
  EXPECT_EQ(summary.avg_jct_s, 99.5);
  EXPECT_EQ(summary.p99_jct_s, 198);
  EXPECT_EQ(summary.makespan_s, 204);
  EXPECT_EQ(summary.starts, 400U);
  EXPECT_EQ(summarize(trace_of(1), {.jobs = {{0, 7, 1}}}).p99_jct_s, 7);
}

TEST(JobReport, WritesJsonForOneAndForSeveral) {
  const std::string one =
      R"({"policy":"srtf","jobs":3,"avg_jct_s":1234567.890,"p99_jct_s":10.000,"makespan_s":100.500,)"
      R"("restart_cost":"real","share_model":"none","starts":4,"events":7,"trace":"a \"b\".csv"})";
  EXPECT_EQ(to_json(std::vector{summary_of("srtf")}), one + "\n");
  EXPECT_EQ(to_json(std::vector{summary_of("srtf"), summary_of("srtf")}),
            "{\"trace\":\"a \\\"b\\\".csv\",\"runs\":[" + one + "," + one + "]}\n");
}

TEST(JobReport, ComparesPoliciesInATable) {
  EXPECT_EQ(to_table(std::vector{summary_of("srtf"), summary_of("fifo-backfill")}, {}),
            "3 jobs of a \"b\".csv on 8 x 8 GPUs; restarts are charged when a job starts, starts "
            "again or moves (real)\n"
            "POLICY         AVG JCT (s)  P99 JCT (s)  MAKESPAN (s)  STARTS\n"
            "srtf           1,234,567.9         10.0         100.5       4\n"
            "fifo-backfill  1,234,567.9         10.0         100.5       4\n");
}

class RunJobs : public testing::Test {
 protected:
  RunJobs() {
    options_.trace = folder_ / "t.csv";
    std::ofstream(options_.trace) << "num_gpu,submit_time,iterations,model_name,iteration_time\n"
                                     "8,0,1000,bert,100\n"
                                     "64,1000,10,bert,100\n";
    options_.policies = {"srtf"};
  }

  TemporaryFolder folder_;
  JobsOptions options_;
};

TEST_F(RunJobs, ReplaysTheTraceOncePerPolicy) {
  std::vector<double> parts;
  options_.progress = [&](double part) { parts.push_back(part); };
  options_.policies = {"srtf", "divvy"};
  options_.json = true;
  const auto text = run_jobs(options_);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_NE(text->find(R"("policy":"srtf","jobs":2,"avg_jct_s":)"), std::string::npos) << *text;
  EXPECT_NE(text->find(R"("policy":"divvy","jobs":2,)"), std::string::npos) << *text;
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
  EXPECT_EQ(parts.back(), 1);
}

TEST_F(RunJobs, SharesOnlyWithRealRestartsAndAModelOfInterference) {
  options_.share = ShareModel::kResources;
  EXPECT_EQ(run_jobs(options_).error().message,
            "jobs share GPUs only where restarts cost what they really cost; add --restart-cost "
            "real");
  options_.restart_cost = RestartCost::kReal;
  EXPECT_EQ(run_jobs(options_).error().message,
            options_.trace +
                ":1: the columns resource_time_0 to resource_time_2 are missing or zero, so it is "
                "not known what jobs do to each other; leave out --share-model");
}

TEST_F(RunJobs, SaysWhatIsWrong) {
  options_.policies = {"strf"};
  EXPECT_EQ(run_jobs(options_).error().message,
            "there is no job policy \"strf\" (did you mean \"srtf\"?); the policies are fifo, "
            "fifo-backfill, sjf, srtf, srsf, las, divvy");
  options_.policies = {};
  EXPECT_FALSE(run_jobs(options_).has_value());
  options_.policies = {"las"};
  options_.cluster.nodes = 4;
  EXPECT_EQ(run_jobs(options_).error().message,
            options_.trace +
                ":3: num_gpu is 64, but the cluster has 32 GPUs (4 nodes of 8); use a larger one");
  options_.trace = folder_ / "missing.csv";
  EXPECT_EQ(run_jobs(options_).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace divvy::sim
