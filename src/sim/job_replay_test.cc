#include "sim/job_replay.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace divvy::sim {
namespace {

// "bert" costs 10 seconds to restart on any number of GPUs.
TraceJob job(double submitted_s, std::uint32_t gpus, double work_s) {
  TraceJob made;
  made.submitted_s = submitted_s;
  made.gpus = gpus;
  made.work_s = work_s;
  made.model = "bert";
  return made;
}
JobTrace trace_of(std::vector<TraceJob> jobs) {
  JobTrace trace{"test", std::move(jobs)};
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) trace.jobs[i].line = i;
  std::sort(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return std::tie(a.submitted_s, a.line) < std::tie(b.submitted_s, b.line);
  });
  return trace;
}

ReplayResult replay(const JobTrace& trace, std::string_view policy, RestartCost cost,
                    ClusterShape cluster = {.nodes = 1, .gpus_per_node = 4}) {
  auto order = place::make_job_order(policy, cluster.gpus());
  ReplayOptions options;
  options.cluster = cluster;
  options.restart_cost = cost;
  return replay_jobs(trace, **order, options);
}
std::vector<double> ends(const ReplayResult& result) {
  std::vector<double> out;
  out.reserve(result.jobs.size());
  for (const auto& outcome : result.jobs) out.push_back(outcome.ended_s);
  return out;
}

using V = std::vector<double>;

TEST(JobReplay, ProtocolChargesEveryEventAndForgivesAPredictedEnd) {
  // Alone and undisturbed a job ends without any cost.
  EXPECT_EQ(ends(replay(trace_of({job(5, 4, 100)}), "srtf", RestartCost::kProtocol)), V{105});
  // The submission at 30 takes 10 of the 30 seconds from the first job although it stays: 80 are
  // left at 30, and it would end at 110. The second ends at 40, when nothing of the first counts.
  const auto result =
      replay(trace_of({job(0, 2, 100), job(30, 2, 10)}), "srtf", RestartCost::kProtocol);
  EXPECT_EQ(ends(result), (V{120, 40}));
}

TEST(JobReplay, ProtocolNeverTakesWorkAway) {
  // Events that are closer than a restart cost only the time between them.
  const auto result = replay(trace_of({job(0, 1, 100), job(3, 1, 200), job(6, 1, 300)}), "srtf",
                             RestartCost::kProtocol);
  EXPECT_EQ(result.jobs[0].ended_s, 106);
}

TEST(JobReplay, RealCostIsChargedForStartsPreemptionsAndNothingElse) {
  // Starts at 0 and works from 10 on; what comes and goes beside it costs it nothing.
  EXPECT_EQ(ends(replay(trace_of({job(0, 2, 100), job(30, 2, 10)}), "srtf", RestartCost::kReal)),
            (V{110, 50}));
  // Preempted at 30 with 80 left, started again at 50, working from 60 on.
  const auto preempted =
      replay(trace_of({job(0, 4, 100), job(30, 4, 10)}), "srtf", RestartCost::kReal);
  EXPECT_EQ(ends(preempted), (V{140, 50}));
  EXPECT_EQ(preempted.jobs[0].starts, 2U);
  EXPECT_EQ(preempted.jobs[0].started_s, 0);
}

TEST(JobReplay, RealCostIsChargedForAMove) {
  // From 60 on two jobs of half a node sit on different nodes; at 100 somebody needs a whole node,
  // so one of them moves and loses ten seconds.
  const ClusterShape cluster{.nodes = 2, .gpus_per_node = 2};
  const auto trace =
      trace_of({job(0, 1, 1000), job(0, 1, 50), job(0, 1, 1000), job(0, 1, 50), job(100, 2, 100)});
  const auto result = replay(trace, "fifo-backfill", RestartCost::kReal, cluster);
  EXPECT_EQ(ends(result), (V{1020, 60, 1010, 60, 210}));
  EXPECT_EQ(result.jobs[0].starts, 2U);
}

TEST(JobReplay, FifoLetsNobodyPassAndBackfillDoes) {
  const auto trace = trace_of({job(0, 3, 100), job(1, 4, 100), job(2, 1, 10)});
  const auto strict = replay(trace, "fifo", RestartCost::kReal);
  EXPECT_EQ(ends(strict), (V{110, 220, 240}));
  const auto backfill = replay(trace, "fifo-backfill", RestartCost::kReal);
  EXPECT_EQ(ends(backfill), (V{110, 220, 22}));
}

TEST(JobReplay, SjfTakesTheShortestButInterruptsNobody) {
  const auto trace = trace_of({job(0, 4, 100), job(1, 4, 50), job(2, 4, 20)});
  EXPECT_EQ(ends(replay(trace, "sjf", RestartCost::kReal)), (V{110, 200, 140}));
}

TEST(JobReplay, SrsfWeighsTimeByGpus) {
  const auto trace = trace_of({job(0, 4, 100), job(0, 1, 200)});
  EXPECT_EQ(ends(replay(trace, "srtf", RestartCost::kReal)), (V{110, 320}));
  EXPECT_EQ(ends(replay(trace, "srsf", RestartCost::kReal)), (V{320, 210}));
}

TEST(JobReplay, LasGivesWayAfterItsQuantum) {
  // 60 GPU seconds on 4 GPUs are 15 s of progress: at 25 the second job gets its turn, which is
  // too short to be interrupted.
  const auto result = replay(trace_of({job(0, 4, 100), job(1, 4, 10)}), "las", RestartCost::kReal);
  EXPECT_EQ(result.jobs[1].ended_s, 45);
  EXPECT_EQ(result.jobs[0].ended_s, 45 + 10 + 85);
}

TEST(JobReplay, SpreadsLargeJobsOverWholeNodes) {
  const ClusterShape cluster{.nodes = 3, .gpus_per_node = 4};
  const auto trace = trace_of({job(0, 10, 100), job(0, 2, 100), job(0, 1, 100)});
  auto order = place::make_job_order("fifo", cluster.gpus());
  ReplayOptions options;
  options.cluster = cluster;
  std::vector<GpuPlace> places;
  options.observe = [&](double, std::span<const RunningJob> running, std::size_t) {
    if (!places.empty()) return;
    for (const auto& one : running) places.emplace_back(one.place.begin(), one.place.end());
  };
  (void)replay_jobs(trace, **order, options);
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0], (GpuPlace{{0, 4}, {1, 4}, {2, 2}}));
  EXPECT_EQ(places[1], (GpuPlace{{2, 2}}));
}

// Uses only one of three resources.
TraceJob busy_job(double submitted_s, std::uint32_t gpus, double work_s, std::size_t resource) {
  TraceJob made = job(submitted_s, gpus, work_s);
  made.iteration_ms = 100;
  made.resource_ms.at(resource) = 90;
  return made;
}

ReplayResult replay_shared(const JobTrace& trace, std::string_view policy) {
  auto order = place::make_job_order(policy, 4);
  ReplayOptions options;
  options.cluster = {.nodes = 1, .gpus_per_node = 4};
  options.share = ShareModel::kResources;
  return replay_jobs(trace, **order, options);
}

TEST(JobReplay, JobsShareGpusWhereTheModelSaysThatItPays) {
  // Both run from the start at 95 % and pay one restart each.
  const auto apart =
      replay_shared(trace_of({busy_job(0, 4, 95, 0), busy_job(0, 4, 190, 1)}), "srtf");
  EXPECT_DOUBLE_EQ(apart.jobs[0].ended_s, 110);
  // When the first ends the other holds the GPUs alone, without another restart: 95 of 190 done.
  EXPECT_DOUBLE_EQ(apart.jobs[1].ended_s, 110 + 95);
  EXPECT_EQ(apart.jobs[1].starts, 1U);
  // Two that need the same resource would gain nothing.
  const auto alike =
      replay_shared(trace_of({busy_job(0, 4, 95, 0), busy_job(0, 4, 190, 0)}), "srtf");
  EXPECT_DOUBLE_EQ(alike.jobs[0].ended_s, 105);
  EXPECT_DOUBLE_EQ(alike.jobs[1].ended_s, 105 + 200);
  // Without the trace's word on it nobody shares, and neither does who cannot preempt.
  EXPECT_EQ(ends(replay_shared(trace_of({job(0, 4, 95), job(0, 4, 190)}), "srtf")), (V{105, 305}));
  EXPECT_EQ(ends(replay_shared(trace_of({busy_job(0, 4, 95, 0), busy_job(0, 4, 190, 1)}), "fifo")),
            (V{105, 305}));
}

JobTrace random_trace(std::uint32_t gpus_most) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  std::vector<TraceJob> jobs;
  jobs.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    jobs.push_back(busy_job(*rc::gen::inRange(0, 3000), *rc::gen::inRange(1U, gpus_most + 1),
                            *rc::gen::inRange(1, 5000), *rc::gen::inRange<std::size_t>(0, 3)));
  return trace_of(std::move(jobs));
}

// Never more GPUs than there are, and nobody split over more nodes than needed.
void check_moment(const JobTrace& trace, const ClusterShape& cluster,
                  std::span<const RunningJob> running) {
  std::vector<std::uint32_t> used(cluster.nodes, 0);
  std::set<std::uint32_t> seen;
  for (const auto& one : running) {
    RC_ASSERT(seen.insert(one.job).second);
    std::uint32_t gpus = 0;
    std::uint32_t parts = 0;
    for (const NodePart part : one.place) {
      gpus += part.gpus;
      parts += part.gpus < cluster.gpus_per_node ? 1 : 0;
      if (!one.guest) used[part.node] += part.gpus;
    }
    RC_ASSERT(gpus == trace.jobs[one.job].gpus);
    RC_ASSERT(parts <= 1U);
    if (gpus <= cluster.gpus_per_node) RC_ASSERT(one.place.size() == 1U);
    // A guest has a host.
    const auto hosts = std::count_if(running.begin(), running.end(), [&](const RunningJob& other) {
      return !other.guest &&
             std::equal(other.place.begin(), other.place.end(), one.place.begin(), one.place.end());
    });
    if (one.guest) RC_ASSERT(hosts >= 1);
  }
  for (const std::uint32_t gpus : used) RC_ASSERT(gpus <= cluster.gpus_per_node);
}

RC_GTEST_PROP(JobReplay, LosesNoJobAndNeverOversubscribes, ()) {
  const ClusterShape cluster{.nodes = *rc::gen::inRange(1U, 5U),
                             .gpus_per_node = *rc::gen::inRange(1U, 9U)};
  const JobTrace trace = random_trace(cluster.gpus());
  const auto cost = *rc::gen::element(RestartCost::kReal, RestartCost::kProtocol);
  const auto share = *rc::gen::element(ShareModel::kNone, ShareModel::kResources);
  for (const auto& info : place::job_orders()) {
    auto order = place::make_job_order(info.name, cluster.gpus());
    ReplayOptions options;
    options.cluster = cluster;
    options.restart_cost = cost;
    options.share = share;
    options.observe = [&](double, std::span<const RunningJob> running, std::size_t waiting) {
      check_moment(trace, cluster, running);
      // With an empty cluster the first in the order always fits.
      RC_ASSERT(!running.empty() || waiting == 0);
    };
    const auto result = replay_jobs(trace, **order, options);
    for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
      RC_ASSERT(result.jobs[i].started_s >= trace.jobs[i].submitted_s);
      RC_ASSERT(result.jobs[i].ended_s >= result.jobs[i].started_s + trace.jobs[i].work_s - 1e-6);
      RC_ASSERT(result.jobs[i].starts >= 1U);
    }
  }
}

RC_GTEST_PROP(JobReplay, PassingPoliciesLeaveNoGpuIdleThatAWaitingJobOfOneCouldUse, ()) {
  const ClusterShape cluster{.nodes = 2, .gpus_per_node = 4};
  const JobTrace trace = random_trace(1);
  for (const auto& info : place::job_orders()) {
    auto order = place::make_job_order(info.name, cluster.gpus());
    ReplayOptions options;
    options.cluster = cluster;
    options.observe = [&](double, std::span<const RunningJob> running, std::size_t waiting) {
      RC_ASSERT(waiting == 0 || running.size() == cluster.gpus());
    };
    (void)replay_jobs(trace, **order, options);
  }
}

RC_GTEST_PROP(JobReplay, IsDeterministic, ()) {
  const ClusterShape cluster{.nodes = 3, .gpus_per_node = 4};
  const JobTrace trace = random_trace(cluster.gpus());
  for (const auto& info : place::job_orders())
    RC_ASSERT(ends(replay(trace, info.name, RestartCost::kReal, cluster)) ==
              ends(replay(trace, info.name, RestartCost::kReal, cluster)));
}

// A policy that does not know durations must give the same answers while two traces differ only in
// what has not happened yet.
RC_GTEST_PROP(JobReplay, PoliciesWithoutDurationsCannotSeeTheFuture, ()) {
  const ClusterShape cluster{.nodes = 2, .gpus_per_node = 4};
  const JobTrace trace = random_trace(4);
  const auto which = *rc::gen::inRange<std::size_t>(0, trace.jobs.size());
  JobTrace longer = trace;
  longer.jobs[which].work_s += 10'000;
  for (const std::string_view name : {"fifo", "fifo-backfill", "las", "divvy"}) {
    const auto before = replay(trace, name, RestartCost::kReal, cluster);
    const auto after = replay(longer, name, RestartCost::kReal, cluster);
    const double until_s = before.jobs[which].ended_s;
    for (std::size_t i = 0; i < trace.jobs.size(); ++i)
      if (before.jobs[i].ended_s < until_s)
        RC_ASSERT(before.jobs[i].ended_s == after.jobs[i].ended_s);
  }
}

TEST(RestartCostName, ReadsBack) {
  EXPECT_EQ(parse_restart_cost("real"), RestartCost::kReal);
  EXPECT_EQ(parse_restart_cost("protocol"), RestartCost::kProtocol);
  EXPECT_FALSE(parse_restart_cost("none").has_value());
}

}  // namespace
}  // namespace divvy::sim
