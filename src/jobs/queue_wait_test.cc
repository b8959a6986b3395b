// Jobs that wait: for others, after failures, for quota, for a place; and what is said about it.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "jobs/array.h"
#include "jobs/queue.h"
#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using model::JobState;
using testing::Desk;
using testing::fleet;
using testing::only;
using testing::spec;
using testing::started;

model::JobSpec after(JobId job, model::DependencyKind kind = model::DependencyKind::kSucceeded) {
  model::JobSpec result = spec(1000);
  result.after = {{job, kind}};
  return result;
}

TEST(Waiting, AJobStartsAfterTheOneItWaitsFor) {
  Desk desk;
  const JobId first = desk.submit(spec(1000));
  const JobId second = desk.submit(after(first));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{first});
  const WaitReport report = desk.queue().explain(second, desk.now());
  EXPECT_EQ(report.kind, WaitKind::kDependency);
  EXPECT_EQ(report.text, "it waits for job 1 to succeed, which is running");
  EXPECT_FALSE(report.place.has_value());
  desk.end(first);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{second});
}

TEST(Waiting, CancelsJobsWhoseDependencyCanNoLongerBeMet) {
  Desk desk;
  const JobId first = desk.submit(spec(1000));
  const JobId second = desk.submit(after(first));
  const JobId third = desk.submit(after(second));
  const JobId cleanup = desk.submit(after(first, model::DependencyKind::kEnded));
  desk.run();
  desk.end(first, 1);
  const auto decisions = desk.run();
  const auto cancels = only<Cancel>(decisions);
  ASSERT_EQ(cancels.size(), 2u);
  EXPECT_EQ(cancels[0].job, second);
  EXPECT_EQ(cancels[0].text, "it waited for job 1 to succeed, which can no longer happen");
  EXPECT_EQ(cancels[1].job, third);
  EXPECT_EQ(desk.state(third), JobState::kCancelled);
  EXPECT_EQ(started(decisions), std::vector<JobId>{cleanup});
}

TEST(Waiting, RetriesAFailureWithExponentialBackOff) {
  Desk desk;
  model::JobSpec job = spec(1000);
  job.retry = {2, Seconds(10), Seconds(600)};
  const JobId id = desk.submit(job);
  desk.run();
  desk.end(id, 7);
  EXPECT_EQ(desk.state(id), JobState::kQueued);
  EXPECT_EQ(desk.job(id).history.back().reason,
            "ended with exit code 7; tried again in 10 s (1 of 2 retries)");
  EXPECT_TRUE(desk.run().empty());
  EXPECT_EQ(desk.queue().next_pass(desk.now()), desk.now() + Seconds(10));
  const WaitReport report = desk.queue().explain(id, desk.now());
  EXPECT_EQ(report.kind, WaitKind::kBackOff);
  EXPECT_EQ(report.text, "it is tried again after 1 failure");
  EXPECT_EQ(report.starts, desk.now() + Seconds(10));
  desk.wait(10);
  desk.run();
  desk.end(id, 7);
  EXPECT_EQ(desk.job(id).not_before, desk.now() + Seconds(20));
  desk.wait(20);
  desk.run();
  desk.end(id, 7);
  EXPECT_EQ(desk.state(id), JobState::kFailed);
  EXPECT_EQ(desk.job(id).history.back().reason, "ended with exit code 7; it was tried 3 times");
}

TEST(Waiting, AnArrayRunsSoManyTasksAtOnce) {
  Desk desk({}, fleet(1, 8));
  model::JobSpec job = spec(1000);
  job.array = model::ArraySpec{0, 4, 1, 2};
  for (model::Job& task : expand(JobId(10), "ada", job, desk.now())) {
    desk.queue().submit(std::move(task), desk.now());
  }
  EXPECT_EQ(started(desk.run()), (std::vector<JobId>{JobId(10), JobId(11)}));
  EXPECT_EQ(desk.queue().explain(JobId(12), desk.now()).kind, WaitKind::kArray);
  EXPECT_TRUE(desk.run().empty());
  desk.end(JobId(10));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{JobId(12)});
}

TEST(Waiting, ExplainNamesTheQuotaInTheWay) {
  Settings settings;
  settings.queues = {testing::queue("small", 1000, false)};
  Desk desk(settings);
  desk.submit_to("small", spec(600));
  const JobId second = desk.submit_to("small", spec(600));
  desk.run();
  const WaitReport report = desk.queue().explain(second, desk.now());
  EXPECT_EQ(report.kind, WaitKind::kQuota);
  EXPECT_EQ(
      report.text,
      "queue small holds 0.6 of the 1 GPU of its quota, and it may not borrow; it starts when "
      "a job of that queue ends");
  EXPECT_EQ(report.place, 1u);
}

TEST(Waiting, MemoryCountsWhenTheGpuIsChosen) {
  Settings settings;
  settings.users = {{"ada", {{}, gib(150), {}}, 1}};
  Desk desk(settings);
  desk.submit(spec(1000));
  const JobId second = desk.submit(spec(1000));
  EXPECT_EQ(started(desk.run()).size(), 1u) << "each GPU has 100 GiB";
  EXPECT_EQ(desk.queue().explain(second, desk.now()).kind, WaitKind::kQuota);
}

TEST(Waiting, AFullFleetIsExplainedWithPlaceAndGuess) {
  Desk desk({}, fleet(1, 1));
  model::JobSpec first = spec(1000);
  first.expected = Seconds(100);
  desk.submit(first);
  desk.run();
  const JobId second = desk.submit(first);
  const JobId third = desk.submit(first);
  desk.run();
  desk.wait(40);
  const WaitReport two = desk.queue().explain(second, desk.now());
  EXPECT_EQ(two.kind, WaitKind::kFull);
  EXPECT_EQ(two.place, 1u);
  EXPECT_EQ(two.in_line, 2u);
  EXPECT_EQ(two.starts, desk.now() + Seconds(60));
  EXPECT_NE(two.details.find("node0"), std::string::npos);
  const WaitReport three = desk.queue().explain(third, desk.now());
  EXPECT_EQ(three.place, 2u);
  EXPECT_EQ(three.starts, desk.now() + Seconds(160)) << "it has to wait for both";
}

TEST(Waiting, TheGuessLearnsFromWhatJobsTook) {
  Desk desk({}, fleet(1, 1));
  const JobId first = desk.submit(spec(1000));
  desk.run();
  const JobId second = desk.submit(spec(1000));
  EXPECT_FALSE(desk.queue().explain(second, desk.now()).starts.has_value());
  desk.wait(50);
  desk.end(first);
  desk.run();
  const JobId third = desk.submit(spec(1000));
  EXPECT_EQ(desk.queue().explain(third, desk.now()).starts, desk.now() + Seconds(51));
}

TEST(Waiting, RefusesAnImpossibleRequestUnlessItIsHeldForCapacity) {
  Fleet gpus = fleet(1, 2);
  gpus.nodes[0].gpus[0].device.nvlink_island = 0;
  gpus.nodes[0].gpus[1].device.nvlink_island = 1;
  Desk desk({}, gpus);
  const auto refusal = [&desk](std::uint32_t thousandths, auto ask) {
    model::Request::Parts parts;
    parts.share = Share(thousandths);
    ask(parts);
    model::JobSpec job(*model::Request::create(std::move(parts)));
    job.command = {"true"};
    const Status checked = desk.queue().check(job, "ada");
    job.hold_for_capacity = true;
    EXPECT_TRUE(desk.queue().check(job, "ada").has_value());
    return checked ? std::string() : checked.error().message;
  };
  const auto says = [](const std::string& text, std::string_view piece) {
    return text.find(piece) != std::string::npos;
  };
  using Parts = model::Request::Parts;
  EXPECT_EQ(
      refusal(5000, [](Parts&) {}),
      "request: it can never start: no node has 5 GPUs; ask for less, or let it wait for such "
      "a machine with --hold-for-capacity (hold_for_capacity: true)");
  EXPECT_TRUE(
      says(refusal(1000, [](Parts& parts) { parts.allowed_models = {"B200"}; }), "model B200"));
  EXPECT_TRUE(says(refusal(300, [](Parts& parts) { parts.memory = gib(101); }), "101 GiB"));
  const auto linked = [](Parts& parts) { parts.topology = model::TopologyPreference::kNvlink; };
  EXPECT_TRUE(says(refusal(2000, linked), "in one NVLink island"));
  EXPECT_TRUE(says(refusal(1000, [](Parts& parts) { parts.gang_size = 3; }), "2 of the 3 members"));
  // What is there but out of use counts as there.
  gpus.nodes[0].gpus[0].resting = "it is cordoned";
  gpus.nodes[0].gpus[1].lost = true;
  gpus.nodes[0].closed = "maintenance";
  desk.set_fleet(gpus);
  EXPECT_EQ(refusal(2000, [](Parts&) {}), "");
}

TEST(Waiting, ExplainSaysThatAJobCanNeverStart) {
  Desk desk({}, fleet(1, 2));
  const JobId id = desk.submit(spec(3000));
  desk.run();
  const WaitReport report = desk.queue().explain(id, desk.now());
  EXPECT_EQ(report.kind, WaitKind::kNever);
  EXPECT_NE(report.text.find("never"), std::string::npos);
  EXPECT_NE(report.text.find("it is held until a machine can run it"), std::string::npos);
}

TEST(Waiting, AReservationWithoutAStartTimeIsPassedForALimitedTime) {
  Settings settings;
  settings.passing = Seconds(600);
  Desk desk(settings, fleet(1, 4));
  const JobId first = desk.submit(spec(500));
  const JobId large = desk.submit(spec(4000));
  const JobId second = desk.submit(spec(1000));
  EXPECT_EQ(started(desk.run()), (std::vector<JobId>{first, second}));
  EXPECT_EQ(desk.queue().reservation(large, desk.now()), nullptr);
  EXPECT_NE(desk.queue().explain(large, desk.now()).text.find("others may pass it"),
            std::string::npos);
  desk.wait(600);
  const JobId third = desk.submit(spec(1000));
  EXPECT_TRUE(started(desk.run()).empty());
  EXPECT_NE(desk.queue().reservation(large, desk.now()), nullptr);
  const WaitReport report = desk.queue().explain(third, desk.now());
  EXPECT_EQ(report.kind, WaitKind::kReservation);
  EXPECT_NE(report.text.find("queue.passing"), std::string::npos) << report.text;
  EXPECT_NE(desk.queue().explain(large, desk.now()).text.find("are kept for it"),
            std::string::npos);
  desk.end(first);
  desk.end(second);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{large});
}

TEST(Waiting, AReservationWithAStartTimeIsNeverPassed) {
  Desk desk({}, fleet(1, 4));
  model::JobSpec limited = spec(1000);
  limited.time_limit = Seconds(100);
  const JobId first = desk.submit(limited);
  const JobId large = desk.submit(spec(4000));
  const JobId unknown = desk.submit(spec(1000));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{first});
  EXPECT_NE(desk.queue().reservation(large, desk.now()), nullptr);
  EXPECT_EQ(desk.queue().explain(unknown, desk.now()).kind, WaitKind::kReservation);
}

TEST(Waiting, AGuessThatHasComeOutWrongIsNoneOfTheStart) {
  Desk desk({}, fleet(1, 1));
  const JobId first = desk.submit(spec(1000));
  desk.run();
  desk.wait(50);
  desk.end(first);
  desk.submit(spec(1000));
  desk.run();
  const JobId third = desk.submit(spec(1000));
  desk.wait(50);
  EXPECT_EQ(desk.queue().explain(third, desk.now()).starts, desk.now() + Seconds(1));
  desk.wait(1);
  EXPECT_FALSE(desk.queue().explain(third, desk.now()).starts.has_value());
}

TEST(Waiting, ATimeLimitIsTheGuessOnceAShorterOneHasComeOutWrong) {
  Desk desk({}, fleet(1, 1));
  model::JobSpec limited = spec(1000);
  limited.expected = Seconds(10);
  limited.time_limit = Seconds(30);
  desk.submit(limited);
  desk.run();
  const JobId next = desk.submit(spec(1000));
  desk.wait(20);
  EXPECT_EQ(desk.queue().explain(next, desk.now()).starts, desk.now() + Seconds(10));
}

// A guess of how long a job takes that has come out wrong keeps no GPU idle.
TEST(Waiting, IgnoresAnExpectedEndThatIsOverdue) {
  Desk desk({}, fleet(1, 4));
  model::JobSpec guessed = spec(1000);
  guessed.expected = Seconds(100);
  const JobId first = desk.submit(guessed);
  const JobId large = desk.submit(spec(4000));
  const JobId small = desk.submit(spec(1000));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{first});
  desk.wait(101);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{small});
  EXPECT_EQ(desk.state(large), JobState::kQueued);
}

// Small jobs of another user, who has used less, come all the time and nobody knows how long they
// take. Before the bound no GPU idles for the large one; after it the large one waits only for
// those who run.
RC_GTEST_PROP(PassingProperty, TheWaitOfALargeJobIsBounded, ()) {
  const auto passing = *rc::gen::inRange<std::int64_t>(0, 60);
  const auto longest = *rc::gen::inRange<std::int64_t>(1, 30);
  Settings settings;
  settings.passing = Seconds(passing);
  Desk desk(settings, fleet(1, 4));
  std::map<JobId, std::int64_t> ends;
  const auto pass = [&](std::int64_t second) {
    for (const JobId id : started(desk.run())) {
      ends[id] = second + *rc::gen::inRange<std::int64_t>(1, longest + 1);
    }
  };
  desk.submit(spec(1000));
  pass(0);
  const JobId large = desk.submit(spec(4000));
  std::vector<JobId> smalls;
  std::int64_t second = 0;
  for (; desk.state(large) == JobState::kQueued; ++second, desk.wait(1)) {
    RC_ASSERT(second <= passing + longest + 1);
    for (auto it = ends.begin(); it != ends.end();) {
      if (it->second > second) {
        ++it;
        continue;
      }
      desk.end(it->first);
      it = ends.erase(it);
    }
    if (*rc::gen::inRange(0, 3) != 0) {
      smalls.push_back(
          desk.submit(spec(*rc::gen::elementOf(std::vector<std::uint32_t>{300, 1000})), "bob"));
    }
    pass(second);
    for (const JobId id : smalls) {
      if (desk.state(id) != JobState::kQueued) continue;
      const bool held_back = desk.queue().explain(id, desk.now()).kind == WaitKind::kReservation;
      RC_ASSERT(!held_back || second >= passing);
    }
  }
}

TEST(Waiting, ExplainNamesTheReservationInTheWay) {
  Settings settings;
  settings.passing = Seconds(0);
  Desk desk(settings, fleet(1, 2));
  desk.submit(spec(1000));
  desk.run();
  model::JobSpec large = spec(2000);
  large.name = "large";
  desk.submit(large);
  const JobId small = desk.submit(spec(1000));
  desk.run();
  const WaitReport report = desk.queue().explain(small, desk.now());
  EXPECT_EQ(report.kind, WaitKind::kReservation);
  EXPECT_EQ(report.text,
            "large (2) was before it and waits for these GPUs; it was passed as long as may be "
            "(queue.passing)");
}

TEST(Waiting, SuspendedRunningAndUnknownAreToldApart) {
  Desk desk;
  const JobId id = desk.submit(spec(1000));
  EXPECT_EQ(desk.queue().explain(id, desk.now()).kind, WaitKind::kNext);
  ASSERT_TRUE(desk.queue().suspend(id, "ada", desk.now()).has_value());
  EXPECT_EQ(desk.queue().explain(id, desk.now()).text,
            "it is suspended; divvy resume 1 lets it go on");
  ASSERT_TRUE(desk.queue().resume(id, "ada", desk.now()).has_value());
  desk.run();
  EXPECT_EQ(desk.queue().explain(id, desk.now()).text, "it does not wait: it is running");
  EXPECT_EQ(desk.queue().explain(JobId(99), desk.now()).kind, WaitKind::kNothing);
}

TEST(Waiting, IdleJobsAreWarnedShownAndEnded) {
  Settings settings;
  settings.idle = {Seconds(600), Seconds(120)};
  Desk desk(settings);
  const JobId id = desk.submit(spec(1000));
  desk.run();
  desk.wait(300);
  desk.queue().used(id, desk.now());
  EXPECT_EQ(desk.queue().next_pass(desk.now()), desk.now() + Seconds(480));
  desk.wait(480);
  const auto warnings = only<Warn>(desk.pass());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].left, Seconds(120));
  EXPECT_EQ(warnings[0].text,
            "job 1 holds a GPU and does not use it; it is ended in about 2 min unless it does");
  desk.wait(50);
  EXPECT_EQ(desk.queue().idle_left(id, desk.now()), Seconds(70));
  EXPECT_TRUE(desk.pass().empty()) << "warned once";
  desk.wait(70);
  const auto stops = only<Stop>(desk.pass());
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, model::StopReason::kIdle);
  desk.end(id, 0, 15);
  EXPECT_EQ(desk.state(id), JobState::kFailed);
}

TEST(Waiting, QueuesAndUsersAreReported) {
  Settings settings;
  settings.queues = {testing::queue("a", 1000)};
  Desk desk(settings);
  desk.submit_to("a", spec(1000));
  desk.submit_to("a", spec(1000));
  desk.submit_to("a", spec(4000));
  desk.run();
  const auto queues = desk.queue().queues();
  ASSERT_EQ(queues.size(), 2u);
  EXPECT_EQ(queues[0].path, "a");
  EXPECT_EQ(queues[0].held, (Held{2000, 2 * gib(100).count(), 2}));
  EXPECT_EQ(queues[0].borrowed, 1000u);
  EXPECT_EQ(queues[0].waiting, 1u);
  EXPECT_EQ(desk.queue().users().at(0).name, "ada");
}

}  // namespace
}  // namespace divvy::jobs
