// Priorities that change, and members that move.
#include <gtest/gtest.h>

#include "jobs/queue.h"
#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using model::JobState;
using testing::Desk;
using testing::fleet;
using testing::only;
using testing::queue;
using testing::spec;
using testing::started;

model::JobSpec on_node(std::uint32_t share, std::string node) {
  model::JobSpec job = spec(share);
  job.where.nodes = {std::move(node)};
  return job;
}

TEST(SetPriority, AJobThatWaitsGoesFurtherAhead) {
  Desk desk({}, fleet(1, 1));
  desk.submit(spec(1000));
  desk.run();
  const JobId second = desk.submit(spec(1000));
  const JobId third = desk.submit(spec(1000));
  EXPECT_EQ(desk.queue().order(), (std::vector<JobId>{second, third}));
  (void)desk.queue().take_changes();
  ASSERT_TRUE(desk.queue().set_priority(third, 7, "ada", desk.now()).has_value());
  EXPECT_EQ(desk.queue().order(), (std::vector<JobId>{third, second}));
  EXPECT_EQ(desk.job(third).spec.priority, 7);
  EXPECT_EQ(desk.job(third).history.back().reason, "priority 7 instead of 0, by ada");
  EXPECT_EQ(desk.queue().take_changes(), std::vector<JobId>{third});
}

TEST(SetPriority, ARunningJobMakesWayByItsNewPriority) {
  Desk desk({}, fleet(1, 2));
  const JobId one = desk.submit(spec(1000));
  const JobId two = desk.submit(spec(1000));
  desk.run();
  ASSERT_TRUE(desk.queue().set_priority(one, 3, "ada", desk.now()).has_value());
  model::JobSpec urgent = spec(1000);
  urgent.priority = 3;
  const JobId high = desk.submit(urgent);
  const auto stops = only<Stop>(desk.run());
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_EQ(stops[0].job, two);
  EXPECT_EQ(stops[0].makes_way_for, high);
}

TEST(SetPriority, IsRefusedForUnknownAndEndedJobsAndInvalidValues) {
  Settings settings;
  settings.queues = {queue("a")};
  settings.queues[0].highest_priority = 10;
  Desk desk(settings, fleet(1, 1));
  const JobId job = desk.submit_to("a", spec(1000));
  const auto refused = [&](JobId id, std::int32_t priority) {
    const Status set = desk.queue().set_priority(id, priority, "ada", desk.now());
    return set ? "accepted" : set.error().message;
  };
  EXPECT_EQ(refused(job, 11), "priority: 11 is above the 10 that queue a allows");
  EXPECT_EQ(refused(job, -1001), "priority: -1001 is outside of -1000 to 1000");
  EXPECT_EQ(refused(JobId(9), 1), "there is no job 9, or it has ended");
  ASSERT_TRUE(desk.queue().cancel(job, "ada", desk.now()).has_value());
  EXPECT_EQ(refused(job, 1), "job 1 has ended already: cancelled");
}

TEST(SetPriority, AJobThatWaitsForAnotherKeepsItsPriorityUntilItsTurn) {
  Desk desk({}, fleet(1, 1));
  const JobId first = desk.submit(spec(1000));
  model::JobSpec after = spec(1000);
  after.after = {{first, model::DependencyKind::kSucceeded}};
  const JobId second = desk.submit(after);
  const JobId third = desk.submit(spec(1000));
  desk.run();
  ASSERT_TRUE(desk.queue().set_priority(second, 5, "ada", desk.now()).has_value());
  desk.end(first);
  EXPECT_EQ(desk.queue().order(), (std::vector<JobId>{second, third}));
}

TEST(Moves, KeepTheConstraintsOfTheMovedJob) {
  Desk desk({}, fleet(2, 2));
  const JobId left = desk.submit(on_node(500, "node0"));
  desk.submit(on_node(500, "node1"));
  const JobId pair = desk.submit(spec(2000));
  desk.run();
  const auto plan = desk.queue().plan_moves(pair, 4, desk.now());
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_FALSE(plan->has_value());
  EXPECT_EQ(desk.queue().plan_moves(left, 4, desk.now()).error().message,
            "job 1 does not wait for a place");
}

TEST(Moves, MakeRoomAndAreBookedExactly) {
  Desk desk({}, fleet(2, 2));
  // Two jobs that may be anywhere, on two nodes because something else was between them.
  const JobId filler = desk.submit(on_node(2000, "node0"));
  desk.run();
  const JobId right = desk.submit(spec(500));
  desk.run();
  ASSERT_EQ(desk.job(right).members[0].node, "node1");
  desk.end(filler);
  model::JobSpec other = on_node(500, "node0");
  const JobId left = desk.submit(other);
  desk.run();
  const JobId pair = desk.submit(spec(2000));
  desk.run();
  ASSERT_EQ(desk.state(pair), JobState::kQueued);
  (void)desk.queue().take_changes();

  const auto plan = desk.queue().plan_moves(pair, 1, desk.now());
  ASSERT_TRUE(plan.has_value() && plan->has_value());
  ASSERT_EQ((*plan)->moves.size(), 1U);
  const Move move = (*plan)->moves.front();
  EXPECT_EQ(move.job, right);
  EXPECT_EQ(move.to.node, "node0");
  EXPECT_TRUE(desk.queue().take_changes().empty()) << "a question changes nothing";
  ASSERT_TRUE(desk.queue().member_moved(move, desk.now()).has_value());
  EXPECT_EQ(desk.job(right).members[0].node, "node0");
  EXPECT_EQ(desk.job(right).history.back().reason, move.text);
  EXPECT_EQ(desk.queue().take_changes(), std::vector<JobId>{right});
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{pair});
  // What it holds is where it is, and nothing is left behind.
  EXPECT_EQ(desk.queue().queues()[0].held.share, 3000U);
  desk.end(pair);
  desk.end(right);
  desk.end(left);
  EXPECT_EQ(desk.queue().queues()[0].held, Held{});
  const JobId all = desk.submit(spec(2000, 2));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{all});
}

TEST(Moves, ToATakenPlaceAreRefused) {
  Desk desk({}, fleet(2, 1));
  const JobId one = desk.submit(on_node(1000, "node0"));
  const JobId two = desk.submit(on_node(600, "node1"));
  desk.run();
  const model::Job before = desk.job(two);
  const auto refused = [&](const Move& move) {
    const Status moved = desk.queue().member_moved(move, desk.now());
    return moved ? "accepted" : moved.error().message;
  };
  Move move{two, 1, before.members[0], "moves"};
  move.to.node = "node0";
  move.to.slices = {model::Slice::create(desk.job(one).members[0].slices[0].gpu(), gib(60),
                                         Share(600), model::ShareKind::kGuarantee)
                        .value()};
  EXPECT_EQ(refused(move), "rank 0 of job 2 cannot be on 0.6 of gpu0 of node0: it is not free");
  EXPECT_EQ(desk.job(two), before);
  move.to.rank = 1;
  EXPECT_EQ(refused(move), "rank 1 of job 2 does not run");
  move.to.rank = 0;
  move.attempt = 2;
  EXPECT_EQ(refused(move), "rank 0 of job 2 does not run");
  // It still holds what it held.
  EXPECT_TRUE(started(desk.run()).empty());
  const JobId rest = desk.submit(spec(400));
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{rest});
  EXPECT_EQ(desk.job(rest).members[0].node, "node1");
}

TEST(Moves, SpareNonPreemptibleJobs) {
  Desk desk({}, fleet(2, 1));
  model::JobSpec keeps = spec(500);
  keeps.preemptible = false;
  desk.submit(keeps);
  desk.run();
  model::JobSpec elsewhere = spec(600);
  const JobId other = desk.submit(elsewhere);
  desk.run();
  ASSERT_EQ(desk.state(other), JobState::kRunning);
  const JobId whole = desk.submit(spec(1000));
  desk.run();
  const auto plan = desk.queue().plan_moves(whole, 4, desk.now());
  ASSERT_TRUE(plan.has_value());
  EXPECT_FALSE(plan->has_value()) << "0.5 and 0.6 do not fit on one GPU";
}

// A member that has ended holds its place until its gang has, and there is nothing to move.
TEST(Moves, SpareGangsWithAnEndedMember) {
  Desk desk({}, fleet(2, 1));
  const JobId left = desk.submit(on_node(600, "node0"));
  const JobId right = desk.submit(on_node(600, "node1"));
  const JobId gang = desk.submit(spec(400, 2));
  desk.run();
  desk.end(left);
  desk.end(right);
  const JobId whole = desk.submit(spec(1000));
  desk.run();
  ASSERT_EQ(desk.state(whole), JobState::kQueued);
  ASSERT_TRUE(desk.queue().plan_moves(whole, 4, desk.now()).value().has_value());
  desk.queue().member_ended(gang, 1, 0, {desk.now(), 0, 0, ""}, desk.now());
  EXPECT_FALSE(desk.queue().plan_moves(whole, 4, desk.now()).value().has_value());
}

TEST(Moves, AreOnlyOfThoseWhoMay) {
  Desk desk({}, fleet(2, 1));
  const JobId filler = desk.submit(on_node(1000, "node0"));
  desk.run();
  const JobId right = desk.submit(spec(400));
  desk.run();
  desk.end(filler);
  const JobId left = desk.submit(on_node(300, "node0"));
  desk.run();
  const JobId whole = desk.submit(spec(1000));
  desk.run();
  ASSERT_EQ(desk.state(whole), JobState::kQueued);
  const auto nobody = [](JobId) { return false; };
  EXPECT_FALSE(desk.queue().plan_moves(whole, 4, desk.now(), nobody).value().has_value());
  const auto only_right = [right](JobId id) { return id == right; };
  const auto plan = desk.queue().plan_moves(whole, 4, desk.now(), only_right).value();
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->moves.size(), 1U);
  EXPECT_EQ(plan->moves[0].job, right);
  ASSERT_EQ(plan->place.size(), 1U);
  EXPECT_EQ(plan->place[0].node, "node1");
  EXPECT_EQ(plan->before, (FreeRoom{1300, 1300, 0, 700}));
  EXPECT_EQ(plan->after, (FreeRoom{1300, 300, 1, 1000}));
  EXPECT_EQ(desk.queue().free_room(), plan->before);
  EXPECT_EQ(desk.state(left), JobState::kRunning);
}

TEST(Moves, APlaceThatIsGivenComesBeforeAnybodysTurn) {
  Desk desk({}, fleet(2, 1));
  const JobId one = desk.submit(spec(1000));
  desk.submit(spec(1000));
  desk.run();
  const std::vector<model::JobMember> place = desk.job(one).members;
  model::JobSpec urgent = spec(1000);
  urgent.priority = 5;
  urgent.preemptible = false;
  const JobId late = desk.submit(spec(500));
  desk.end(one);
  desk.submit(urgent);
  desk.queue().give_place(late, place);
  EXPECT_EQ(started(desk.run()).front(), late);
  EXPECT_EQ(desk.job(late).members[0].node, place[0].node);
}

TEST(Moves, APlaceThatIsTakenIsNotGiven) {
  Desk desk({}, fleet(2, 1));
  const JobId one = desk.submit(spec(1000));
  desk.submit(on_node(400, "node1"));
  desk.run();
  const std::vector<model::JobMember> place = desk.job(one).members;
  const JobId late = desk.submit(spec(500));
  desk.queue().give_place(late, place);
  EXPECT_EQ(started(desk.run()), std::vector<JobId>{late}) << "it waits like everybody, and fits";
  EXPECT_NE(desk.job(late).members[0].node, place[0].node);
  // A gang is not started in part.
  const JobId gang = desk.submit(spec(300, 3));
  desk.end(one);
  desk.queue().give_place(gang, place);
  desk.run();
  EXPECT_TRUE(desk.job(gang).members.empty() || desk.job(gang).members.size() == 3);
}

TEST(Reservation, IsShownWhileItStands) {
  Desk desk({}, fleet(1, 1));
  model::JobSpec first = spec(1000);
  first.expected = Seconds(60);
  desk.submit(first);
  desk.run();
  const JobId second = desk.submit(spec(1000));
  EXPECT_EQ(desk.queue().reservation(second, desk.now()), nullptr);
  desk.run();
  ASSERT_NE(desk.queue().reservation(second, desk.now()), nullptr);
  const auto in_a_minute =
      std::chrono::floor<Seconds>(desk.now() + Seconds(60)).time_since_epoch().count();
  EXPECT_EQ(desk.queue().reservation(second, desk.now())->start, in_a_minute);
  EXPECT_EQ(desk.queue().reservation(JobId(9), desk.now()), nullptr);
}

}  // namespace
}  // namespace divvy::jobs
