#include "jobs/queue.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using model::JobState;
using model::StopReason;
using testing::Desk;
using testing::fleet;
using testing::only;
using testing::spec;
using testing::started;

TEST(Queue, AJobThatFitsStartsAndEnds) {
  Desk desk;
  model::JobSpec job = spec(300);
  job.name = "train";
  const JobId id = desk.submit(job);
  const auto decisions = desk.pass();
  const auto starts = only<Start>(decisions);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].attempt, 1u);
  ASSERT_EQ(starts[0].members.size(), 1u);
  EXPECT_EQ(starts[0].members[0].node, "node0");
  EXPECT_EQ(starts[0].members[0].slices[0].share(), Share(300));
  EXPECT_EQ(desk.state(id), JobState::kStarting);
  desk.begin(starts[0]);
  EXPECT_EQ(desk.state(id), JobState::kRunning);
  desk.wait(5);
  desk.end(id);
  EXPECT_EQ(desk.state(id), JobState::kSucceeded);
  EXPECT_EQ(desk.job(id).history.back().reason, "ended with exit code 0");
  EXPECT_TRUE(desk.pass().empty());
}

TEST(Queue, BoundsWhatIsKeptOfEndedJobs) {
  Desk desk;
  std::size_t most = 0;
  for (std::uint64_t i = 1; i <= 3'000; ++i) {
    // No two ask for the same.
    model::Request::Parts parts;
    parts.share = Share(100);
    parts.memory = mib(i);
    model::JobSpec first(*model::Request::create(parts));
    first.command = {"true"};
    const JobId before = desk.submit(first);
    desk.run();
    desk.end(before);
    desk.queue().forget(before);
    // Waits for one that is not known here any more.
    model::JobSpec second = first;
    second.after = {{before, model::DependencyKind::kSucceeded}};
    const JobId after(1'000'000 + i);
    const FinishedJob finished{before, std::nullopt, JobState::kSucceeded};
    desk.queue().submit(model::Job(after, "ada", second, desk.now()), desk.now(), {&finished, 1});
    desk.run();
    ASSERT_EQ(desk.state(after), JobState::kRunning);
    desk.end(after);
    (void)desk.queue().take_changes();
    desk.queue().forget(after);
    most = std::max(most, desk.queue().entries_kept());
  }
  EXPECT_LE(most, 600U);
}

TEST(Queue, GivesJobsTheTimeLimitOfTheirQueueAndRefusesMore) {
  Settings settings;
  settings.queues = {testing::queue("a")};
  settings.queues[0].time = {Seconds(600), Seconds(3'600)};
  Desk desk(settings);
  model::JobSpec job = spec(1000);
  job.queue = "a";
  EXPECT_EQ(desk.queue().with_defaults(job).time_limit, Seconds(600));
  const auto refusal = [&](std::optional<Seconds> limit) {
    job.time_limit = limit;
    const Status fine = desk.queue().check(desk.queue().with_defaults(job), "ada");
    return fine ? "" : fine.error().message;
  };
  EXPECT_EQ(refusal(std::nullopt), "");
  EXPECT_EQ(refusal(Seconds(3'600)), "");
  EXPECT_EQ(refusal(Seconds(3'601)), "time_limit: 1h1s is more than the 1h that queue a allows");
  job.time_limit = Seconds(60);
  EXPECT_EQ(desk.queue().with_defaults(job).time_limit, Seconds(60)) << "what it names is its own";
  job.queue = "default";
  job.time_limit.reset();
  EXPECT_EQ(desk.queue().with_defaults(job).time_limit, std::nullopt);
}

TEST(Queue, RefusesMoreWaitingJobsThanAUserMayHave) {
  Settings settings;
  settings.most_waiting_of_user = 3;
  settings.most_waiting = 4;
  Desk desk(settings);
  const auto check = [&desk](const std::string& owner, std::uint32_t tasks) {
    model::JobSpec job = spec(1000);
    if (tasks > 1) job.array = model::ArraySpec{.first = 1, .last = tasks};
    return desk.queue().check(job, owner, {});
  };
  EXPECT_TRUE(check("ann", 3).has_value());
  const Status array = check("ann", 4);
  ASSERT_FALSE(array.has_value());
  EXPECT_EQ(array.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(array.error().message.find("limit of 3"), std::string::npos) << array.error().message;
  model::JobSpec job = spec(1000);
  for (int i = 0; i < 3; ++i) desk.submit(job, "ann");
  EXPECT_FALSE(check("ann", 1).has_value());
  EXPECT_TRUE(check("bob", 1).has_value()) << "others are not kept out";
  EXPECT_FALSE(check("bob", 2).has_value()) << "in all";
  // One that runs waits no more.
  ASSERT_FALSE(desk.run().empty());
  EXPECT_TRUE(check("ann", 1).has_value());
}

TEST(Queue, TakeChangesNamesEachChangedJobOnce) {
  Desk desk;
  const JobId id = desk.submit(spec(300));
  EXPECT_EQ(desk.queue().take_changes(), std::vector<JobId>{id});
  EXPECT_TRUE(desk.queue().take_changes().empty());
  desk.run();
  EXPECT_EQ(desk.queue().take_changes(), std::vector<JobId>{id});
  desk.end(id);
  EXPECT_EQ(desk.queue().take_changes(), std::vector<JobId>{id});
  desk.queue().forget(id);
  EXPECT_EQ(desk.queue().find(id), nullptr);
}

TEST(Queue, AGangStartsTogetherOrNotAtAll) {
  Desk desk({}, fleet(2, 2));
  const JobId small = desk.submit(spec(1000));
  const JobId gang = desk.submit(spec(1000, 4));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{small});
  desk.end(small);
  const auto starts = only<Start>(desk.pass());
  ASSERT_EQ(starts.size(), 1u);
  ASSERT_EQ(starts[0].members.size(), 4u);
  EXPECT_EQ(starts[0].members[0].node, starts[0].members[1].node) << "ranks go node by node";
  desk.queue().member_started(gang, 1, 0, desk.now());
  EXPECT_EQ(desk.state(gang), JobState::kStarting);
  desk.begin(starts[0]);
  EXPECT_EQ(desk.state(gang), JobState::kRunning);
  desk.queue().member_ended(gang, 1, 2, {desk.now(), 0, 0, ""}, desk.now());
  EXPECT_EQ(desk.state(gang), JobState::kRunning) << "three are still at work";
  desk.end(gang);
  EXPECT_EQ(desk.state(gang), JobState::kSucceeded);
}

TEST(Queue, AnElasticJobTakesWhatThereIs) {
  Desk desk({}, fleet(1, 3));
  model::JobSpec job = spec(1000, 8);
  job.least_members = 2;
  const JobId id = desk.submit(job);
  desk.run();
  EXPECT_EQ(desk.job(id).members.size(), 3u);
}

TEST(Queue, AnElasticJobTakesWhatItsQueueMayHold) {
  Settings settings;
  settings.queues = {testing::queue("small", 2000, false)};
  Desk desk(settings, fleet(1, 8));
  model::JobSpec job = spec(1000, 8);
  job.least_members = 1;
  const JobId id = desk.submit_to("small", job);
  desk.run();
  EXPECT_EQ(desk.job(id).members.size(), 2u);
}

TEST(Queue, WhenOneMemberFailsTheOthersAreStopped) {
  Desk desk({}, fleet(1, 4));
  const JobId id = desk.submit(spec(1000, 3));
  desk.run();
  desk.queue().member_ended(id, 1, 1, {desk.now(), 3, 0, ""}, desk.now());
  EXPECT_EQ(desk.state(id), JobState::kStopping);
  const auto stops = only<Stop>(desk.pass());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, StopReason::kMemberFailed);
  EXPECT_EQ(stops[0].text, "rank 1 ended with exit code 3");
  EXPECT_TRUE(desk.pass().empty()) << "stopped once";
  desk.end(id, 0, 15);
  EXPECT_EQ(desk.state(id), JobState::kFailed);
  EXPECT_EQ(desk.job(id).history.back().reason, "rank 1 ended with exit code 3");
}

TEST(Queue, AWaitingJobIsCancelledAtOnceARunningOneIsStopped) {
  Desk desk;
  const JobId running = desk.submit(spec(4000));
  const JobId waiting = desk.submit(spec(4000));
  desk.run();
  EXPECT_TRUE(desk.queue().cancel(waiting, "ada", desk.now()).has_value());
  EXPECT_EQ(desk.state(waiting), JobState::kCancelled);
  EXPECT_TRUE(desk.queue().cancel(running, "ada", desk.now()).has_value());
  EXPECT_TRUE(desk.queue().cancel(running, "ada", desk.now()).has_value());
  const auto stops = only<Stop>(desk.pass());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].grace, Seconds(30));
  EXPECT_EQ(stops[0].text, "cancelled by ada");
  desk.end(running, 0, 15);
  EXPECT_EQ(desk.state(running), JobState::kCancelled);
  EXPECT_FALSE(desk.queue().cancel(running, "ada", desk.now()).has_value());
  EXPECT_FALSE(desk.queue().cancel(JobId(99), "ada", desk.now()).has_value());
}

TEST(Queue, DropsTheStopOfAJobThatHasEnded) {
  Desk desk;
  const JobId id = desk.submit(spec(1000));
  desk.run();
  const WallTime ended = desk.now();
  desk.wait(1);
  ASSERT_TRUE(desk.queue().cancel(id, "ada", desk.now()).has_value());
  desk.queue().member_ended(id, 1, 0, {ended, 0, 0, ""}, desk.now());
  EXPECT_EQ(desk.state(id), JobState::kSucceeded);
  EXPECT_TRUE(desk.pass().empty());
}

TEST(Queue, ASuspendedJobGoesOnWhenItIsResumed) {
  Desk desk;
  const JobId id = desk.submit(spec(1000));
  ASSERT_TRUE(desk.queue().suspend(id, "ada", desk.now()).has_value());
  EXPECT_TRUE(desk.run().empty());
  EXPECT_FALSE(desk.queue().suspend(id, "ada", desk.now()).has_value());
  ASSERT_TRUE(desk.queue().resume(id, "ada", desk.now()).has_value());
  EXPECT_FALSE(desk.queue().resume(id, "ada", desk.now()).has_value());
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{id});
  ASSERT_TRUE(desk.queue().suspend(id, "bob", desk.now()).has_value());
  EXPECT_EQ(only<Stop>(desk.pass())[0].reason, StopReason::kSuspended);
  desk.end(id, 0, 15);
  EXPECT_EQ(desk.state(id), JobState::kSuspended);
  ASSERT_TRUE(desk.queue().resume(id, "ada", desk.now()).has_value());
  EXPECT_EQ(only<Start>(desk.run())[0].attempt, 2u);
}

TEST(Queue, StopsAJobAtItsTimeLimit) {
  Desk desk;
  model::JobSpec job = spec(1000);
  job.time_limit = Seconds(60);
  job.grace = Seconds(5);
  const JobId id = desk.submit(job);
  desk.run();
  EXPECT_EQ(desk.queue().next_pass(desk.now()), desk.now() + Seconds(60));
  desk.wait(59);
  EXPECT_TRUE(desk.pass().empty());
  desk.wait(1);
  const auto stops = only<Stop>(desk.pass());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, StopReason::kTimeLimit);
  EXPECT_EQ(stops[0].grace, Seconds(5));
  desk.end(id, 0, 9);
  EXPECT_EQ(desk.state(id), JobState::kFailed);
}

TEST(Queue, RequeuesJobsOfAFailedGpu) {
  Fleet gpus = fleet(2, 1);
  Desk desk({}, gpus);
  const JobId id = desk.submit(spec(1000));
  desk.run();
  FleetNode& node = gpus.nodes[desk.job(id).members[0].node == "node0" ? 0 : 1];
  node.gpus[0].lost = true;
  node.gpus[0].resting = "XID 79";
  desk.set_fleet(gpus);
  const auto stops = only<Stop>(desk.pass());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, StopReason::kPlaceLost);
  desk.end(id, 0, 9);
  EXPECT_EQ(desk.job(id).failures, 0u) << "that is not its fault";
  desk.run();
  EXPECT_EQ(desk.state(id), JobState::kRunning);
  EXPECT_NE(desk.job(id).members[0].node, node.name);
}

TEST(Queue, RequeuesJobsOfALostNode) {
  Fleet gpus = fleet(2, 2);
  Desk desk({}, gpus);
  const JobId gang = desk.submit(spec(2000, 2));
  desk.run();
  gpus.nodes[1].lost = true;
  gpus.nodes[1].closed = "power supply";
  desk.set_fleet(gpus);
  const auto stops = only<Stop>(desk.pass());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, StopReason::kPlaceLost);
  EXPECT_EQ(stops[0].text, "node1 is lost: power supply");
  EXPECT_EQ(stops[0].makes_way_for, std::nullopt);
  desk.end(gang, 0, 9);
  EXPECT_TRUE(desk.run().empty());
  const WaitReport report = desk.queue().explain(gang, desk.now());
  EXPECT_NE(report.text.find("starts if node1 takes work again"), std::string::npos) << report.text;
  gpus.nodes[1].lost = false;
  gpus.nodes[1].closed.clear();
  desk.set_fleet(gpus);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{gang});
}

TEST(Queue, AJobThatDoesNotFitDoesNotBlockTheSameSizeOnOtherNodes) {
  Desk desk({}, fleet(2, 1));
  const auto on = [](std::string node) {
    model::JobSpec job = spec(1000);
    job.where.nodes = {std::move(node)};
    return job;
  };
  desk.submit(on("node0"));
  desk.run();
  const JobId same = desk.submit(on("node0"));
  const JobId other = desk.submit(on("node1"));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{other});
  EXPECT_EQ(desk.state(same), JobState::kQueued);
}

// In one pass what did not fit is not tried again: each of these fits nowhere, and the one behind
// it differs from it in that alone.
TEST(Queue, AJobThatDoesNotFitDoesNotBlockOneWithOtherConstraints) {
  Fleet gpus = fleet(2, 2);
  for (FleetNode& node : gpus.nodes) {
    node.taints = {"dedicated"};
    node.gpus[0].device.numa_node = 0;
    node.gpus[1].device.numa_node = 1;
  }
  const model::Where good{.tolerations = {"dedicated"}};
  std::vector<model::Where> bad(7, good);
  bad[0].nodes = {"elsewhere"};
  bad[1].nodes_denied = {"node0"};
  bad[2].node_labels = {{"pool", "train"}};
  bad[3].tolerations.clear();
  bad[4].gpus_near = {model::Closeness::kNuma, true};
  bad[5].members_near = {model::Closeness::kNode, true};
  bad[6].spread = model::Spread{model::Closeness::kZone, 1};
  for (std::size_t i = 0; i < bad.size(); ++i) {
    Settings settings;
    settings.reservations = 0;
    Desk desk(settings, gpus);
    model::JobSpec job = spec(2000, 2);
    job.where = bad[i];
    const JobId never = desk.submit(job);
    job.where = good;
    const JobId fits = desk.submit(job);
    EXPECT_EQ(started(desk.run()), std::vector<JobId>{fits}) << i;
    EXPECT_EQ(desk.state(never), JobState::kQueued) << i;
  }
}

TEST(Queue, AUserExcludedFromANodeDoesNotBlockOthers) {
  Fleet gpus = fleet(1, 1);
  gpus.nodes[0].not_for = {"bob"};
  Desk desk({}, gpus);
  const JobId outcast = desk.submit(spec(1000), "bob");
  const JobId welcome = desk.submit(spec(1000), "ada");
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{welcome});
  desk.end(welcome);
  EXPECT_TRUE(desk.run().empty());
  gpus.nodes[0].not_for.clear();
  desk.set_fleet(gpus);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{outcast});
}

TEST(Queue, AJobWithoutAGpuRunsBesideFullOnesAndCountsAsAJob) {
  Settings settings;
  settings.queues = {testing::queue("a", 0, false)};
  settings.queues[0].quota.jobs = 1;
  settings.idle = {Seconds(10), Seconds(1)};
  Desk desk(settings, fleet(1, 1));
  const JobId full = desk.submit(spec(1000));
  const JobId none = desk.submit_to("a", spec(0));
  const JobId next = desk.submit_to("a", spec(0));
  EXPECT_EQ(started(desk.run()), (std::vector<JobId>{none, full}));
  EXPECT_EQ(desk.job(none).members[0].node, "node0");
  EXPECT_TRUE(desk.job(none).members[0].slices.empty());
  EXPECT_EQ(desk.queue().explain(next, desk.now()).kind, WaitKind::kQuota);
  // It has no GPU that it could leave unused.
  desk.wait(100);
  desk.run();
  EXPECT_EQ(desk.state(full), JobState::kStopping);
  EXPECT_EQ(desk.state(none), JobState::kRunning);
}

TEST(Queue, WaitsForARequiredTopology) {
  Fleet gpus = fleet(1, 4);  // 1 and 3 are linked
  for (std::uint32_t i = 0; i < 4; ++i) {
    gpus.nodes[0].gpus[i].device.nvlink_island = i == 3 ? 1 : i;
  }
  Desk desk({}, gpus);
  const auto pair = [] {
    model::Request::Parts parts;
    parts.share = Share(2000);
    parts.topology = model::TopologyPreference::kNvlink;
    model::JobSpec job(*model::Request::create(parts));
    job.command = {"true"};
    return job;
  };
  const JobId linked = desk.submit(pair());
  const JobId next = desk.submit(pair());
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{linked});
  EXPECT_EQ(desk.queue().explain(next, desk.now()).kind, WaitKind::kFull);
  desk.end(linked);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{next});
}

TEST(Queue, MemoryNamedWithWholeGpusIsTheLimitOnEachAndCountsAgainstTheQuota) {
  Settings settings;
  settings.queues = {testing::queue("a", {}, false)};
  settings.queues[0].quota.memory = gib(50);
  Desk desk(settings, fleet(1, 4));
  const auto job = [](std::uint32_t thousandths, Bytes memory) {
    model::Request::Parts parts;
    parts.share = Share(thousandths);
    parts.memory = memory;
    model::JobSpec result(*model::Request::create(parts));
    result.command = {"true"};
    result.queue = "a";
    return result;
  };
  const JobId two = desk.submit(job(2000, gib(20)));
  const JobId more = desk.submit(job(1000, gib(20)));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{two});
  for (const model::Slice& slice : desk.job(two).members[0].slices) {
    EXPECT_TRUE(slice.whole_gpu());
    EXPECT_EQ(slice.memory(), gib(20));
  }
  EXPECT_EQ(desk.queue().explain(more, desk.now()).kind, WaitKind::kQuota);
  EXPECT_FALSE(desk.queue().check(job(3000, gib(20)), "ada").has_value());
}

TEST(Queue, APartByMemoryAloneIsAsLargeAsItsMemory) {
  Settings settings;
  settings.queues = {testing::queue("a", 500, false)};
  Desk desk(settings, fleet(1, 2));
  const auto by_memory = [](Bytes memory) {
    model::Request::Parts parts;
    parts.memory = memory;
    model::JobSpec job(*model::Request::create(parts));
    job.command = {"true"};
    job.queue = "a";
    return job;
  };
  const JobId quarter = desk.submit(by_memory(gib(25)));
  const JobId more = desk.submit(by_memory(gib(30)));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{quarter});
  EXPECT_EQ(desk.job(quarter).members[0].slices[0].share(), Share(250));
  EXPECT_EQ(desk.job(quarter).members[0].slices[0].memory(), gib(25));
  EXPECT_EQ(desk.queue().explain(more, desk.now()).kind, WaitKind::kQuota);
  EXPECT_FALSE(desk.queue().check(by_memory(gib(60)), "ada").has_value());
}

TEST(Queue, RetriesARefusedStartWithoutCountingAFailure) {
  Desk desk;
  const JobId id = desk.submit(spec(1000));
  const auto start = only<Start>(desk.pass()).at(0);
  desk.queue().start_refused(id, start.attempt, "somebody was faster", desk.now());
  EXPECT_EQ(desk.state(id), JobState::kQueued);
  EXPECT_EQ(desk.job(id).failures, 0u);
  EXPECT_TRUE(desk.pass().empty());
  desk.wait(5);
  EXPECT_EQ(only<Start>(desk.pass()).at(0).attempt, 2u);
  desk.queue().start_refused(id, 2, "somebody was faster", desk.now());
  EXPECT_EQ(desk.job(id).not_before, desk.now() + Seconds(10)) << "less and less often";
  desk.wait(10);
  EXPECT_EQ(only<Start>(desk.pass()).at(0).attempt, 3u);
  desk.queue().start_failed(id, 1, "news of an older attempt", desk.now());
  EXPECT_EQ(desk.state(id), JobState::kStarting);
  desk.queue().start_failed(id, 3, "no such image", desk.now());
  EXPECT_EQ(desk.state(id), JobState::kFailed);
}

TEST(Queue, ALargeJobIsNotStarvedBySmallOnes) {
  Settings settings;
  settings.passing = Seconds(0);
  Desk desk(settings, fleet(1, 2));
  const JobId first = desk.submit(spec(1000));
  desk.run();
  const JobId large = desk.submit(spec(2000));
  desk.submit(spec(1000));
  EXPECT_TRUE(desk.run().empty()) << "the free GPU is kept for the large one";
  desk.end(first);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{large});
}

TEST(Queue, BackfillsAShortJobThatDelaysNoReservation) {
  Desk desk({}, fleet(1, 2));
  model::JobSpec first = spec(1000);
  first.expected = Seconds(100);
  desk.submit(first);
  desk.run();
  desk.submit(spec(2000));
  model::JobSpec longer = spec(1000);
  longer.expected = Seconds(101);
  desk.submit(longer);
  model::JobSpec shorter = spec(1000);
  shorter.expected = Seconds(100);
  const JobId fits = desk.submit(shorter);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{fits});
}

TEST(Queue, UsersOfOneQueueTakeTurns) {
  Desk desk({}, fleet(1, 4));
  std::vector<JobId> ada;
  std::vector<JobId> bob;
  ada.reserve(4);
  bob.reserve(4);
  for (int i = 0; i < 4; ++i) ada.push_back(desk.submit(spec(1000), "ada"));
  for (int i = 0; i < 4; ++i) bob.push_back(desk.submit(spec(1000), "bob"));
  EXPECT_EQ(started(desk.run()), (std::vector<JobId>{ada[0], bob[0], ada[1], bob[1]}));
}

TEST(Queue, AJobNobodyCouldEverStartIsRefused) {
  Settings settings;
  settings.queues = {testing::queue("small", 1000, false)};
  settings.queues[0].highest_priority = 0;
  Fleet gpus = fleet(1, 4);
  gpus.smallest_slice = mib(256);
  Desk desk(settings, gpus);
  const auto refused = [&desk](const model::JobSpec& job, const std::string& queue) {
    model::JobSpec copy = job;
    copy.queue = queue;
    const Status status = desk.queue().check(copy, "ada");
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(refused(spec(300), "defualt"),
            "queue: there is no queue defualt; did you mean default?");
  EXPECT_EQ(refused(spec(2000), "small"),
            "request: queue small may have at most 1 GPU at one time");
  model::JobSpec urgent = spec(300);
  urgent.priority = 1;
  EXPECT_EQ(refused(urgent, "small"), "priority: 1 is above the 0 that queue small allows");
  EXPECT_EQ(refused(spec(1), "default"),
            "request: 102.4 MiB of GPU memory is too little for any program; ask for at least "
            "256.0 MiB");
  EXPECT_TRUE(refused(spec(17'000), "default").starts_with("request: one member asks for 17"));
  model::JobSpec after = spec(300);
  after.after = {{JobId(77)}};
  EXPECT_EQ(refused(after, "default"), "after[0].job: there is no job 77 to wait for");
  const FinishedJob done{JobId(77), std::nullopt, JobState::kSucceeded};
  EXPECT_TRUE(desk.queue().check(after, "ada", {&done, 1}).has_value());
}

TEST(Queue, RestoresItsStateAfterACrash) {
  Desk desk({}, fleet(1, 2));
  const JobId running = desk.submit(spec(1000));
  const JobId stopping = desk.submit(spec(1000));
  const JobId waiting = desk.submit(spec(1000));
  desk.run();
  desk.wait(10);
  ASSERT_TRUE(desk.queue().cancel(stopping, "ada", desk.now()).has_value());
  (void)desk.pass();

  Desk again({}, fleet(1, 2));
  again.wait(20);
  std::vector<model::Job> jobs{desk.job(running), desk.job(stopping), desk.job(waiting)};
  ASSERT_TRUE(again.queue().restore(jobs, desk.queue().usage(), {}, again.now()).has_value());
  const auto decisions = again.pass();
  ASSERT_EQ(decisions.size(), 1u) << "no place is given out twice";
  const Stop stop = only<Stop>(decisions).at(0);
  EXPECT_EQ(stop.job, stopping);
  EXPECT_EQ(stop.grace, Seconds(20)) << "ten seconds of its grace are over";
  again.end(stopping, 0, 9);
  EXPECT_EQ(again.state(stopping), JobState::kCancelled);
  EXPECT_EQ(started(again.run()), std::vector<JobId>{waiting});
  again.end(running);
  EXPECT_EQ(again.state(running), JobState::kSucceeded);
  EXPECT_FALSE(again.queue().restore({desk.job(running)}, {}, {}, again.now()).has_value());
}

TEST(Queue, NewSettingsApplyToExistingJobs) {
  Desk desk({}, fleet(1, 4));
  const JobId one = desk.submit(spec(1000));
  desk.run();
  Settings settings;
  settings.queues = {testing::queue("default", 1000, false)};
  settings.policy = "bestfit";
  ASSERT_TRUE(desk.queue().set_settings(settings).has_value());
  const JobId two = desk.submit(spec(1000));
  EXPECT_TRUE(desk.run().empty());
  desk.end(one);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{two});
  settings.half_life = Seconds(0);
  EXPECT_FALSE(desk.queue().set_settings(settings).has_value());
}

}  // namespace
}  // namespace divvy::jobs
