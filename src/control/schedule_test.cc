#include "control/schedule.h"

#include <gtest/gtest.h>

#include "control/schedules.h"
#include "control/testing.h"
#include "store/people_table.h"

namespace divvy::control {
namespace {

using namespace std::chrono_literals;
using testing::TestDaemon;

constexpr const char* kNightly = R"({"name":"nightly","every":"*/10 * * * *",
  "job":{"gpu":0.3,"command":["train"]}})";

std::string error_of(std::string_view text) {
  const auto read = read_new_schedule(text);
  return read ? "" : read.error().message;
}

TEST(NewSchedule, SaysWhatIsWrongWithTheField) {
  const auto good = read_new_schedule(kNightly);
  ASSERT_TRUE(good.has_value()) << good.error().message;
  EXPECT_EQ(good->missed, MissedRuns::kSkip);
  EXPECT_EQ(good->overlap, Overlap::kSkip);
  EXPECT_TRUE(error_of(R"({"name":"x","job":{"gpu":1,"command":["a"]}})").starts_with("every: "));
  EXPECT_TRUE(error_of(R"({"name":"x","every":"1 2","job":{"gpu":1,"command":["a"]}})")
                  .starts_with("every: \"1 2\" is not five fields"));
  EXPECT_TRUE(error_of(R"({"name":"a b","every":"@daily","job":{"gpu":1,"command":["a"]}})")
                  .starts_with("name: "));
  EXPECT_TRUE(error_of(R"({"name":"x","every":"@daily","job":{"gpu":"much","command":["a"]}})")
                  .starts_with("job: gpu: "));
  EXPECT_TRUE(
      error_of(R"({"name":"x","every":"@daily","job":{"gpu":1,"command":["a"],"after":[3]}})")
          .starts_with("job.after: "));
  EXPECT_TRUE(
      error_of(R"({"name":"x","every":"@daily","missed":"all","job":{}})").starts_with("missed: "));
  EXPECT_EQ(error_of(R"({"name":"x","every":"@daily","job":{"gpu":1,"holder":"process"}})"),
            "job.holder: a run is a job that has members");
}

class SchedulesTest : public ::testing::Test {
 protected:
  SchedulesTest() {
    // At the beginning of ten minutes, so that it is known what comes when.
    const auto now = daemon_.clock.wall_now().time_since_epoch();
    daemon_.clock.advance(std::chrono::ceil<std::chrono::days>(now) - now);
    open();
  }
  void open() {
    schedules_ = std::make_unique<Schedules>(Schedules::Parts{
        .database = *daemon_.database, .dispatcher = *daemon_.dispatcher, .clock = daemon_.clock});
  }
  void replace_daemon(Duration away = 0s) {
    schedules_.reset();
    daemon_.kill();
    daemon_.clock.advance(away);
    daemon_.open();
    open();
  }
  void make(const std::string& more = "", const std::string& of_job = "") {
    auto wanted = read_new_schedule(R"({"name":"nightly","every":"*/10 * * * *",)" + more +
                                    R"("job":{"gpu":0.3,)" + of_job + R"("command":["train"]}})");
    ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
    const auto made = schedules_->make(*std::move(wanted), "ada");
    ASSERT_TRUE(made.has_value()) << made.error().message;
  }
  void pass(Duration time) {
    daemon_.clock.advance(time);
    (void)schedules_->step();
    daemon_.settle();
  }
  Schedule schedule() { return schedules_->find("nightly").value(); }
  // Every job that there ever was.
  std::size_t jobs() {
    return daemon_.database
        ->read([](store::Connection& connection) {
          store::JobFilter filter;
          filter.limit = 1000;
          return store::JobTable(connection).list(filter);
        })
        ->jobs.size();
  }
  void end_last() {
    const model::JobId last = schedule().last_job.value();
    daemon_.runtime.end({last, 1, 0}, 0);
    daemon_.settle();
  }

  TestDaemon daemon_;
  std::unique_ptr<Schedules> schedules_;
};

TEST_F(SchedulesTest, SubmitsAJobOfTheOwnerAtEachOfItsTimes) {
  make();
  pass(9min);
  EXPECT_EQ(jobs(), 0U);
  pass(1min);
  ASSERT_EQ(jobs(), 1U);
  const model::Job job = daemon_.stored(schedule().last_job.value());
  EXPECT_EQ(job.owner, "ada");
  EXPECT_EQ(job.spec.name, "nightly");
  EXPECT_EQ(job.spec.labels.at("divvy.schedule"), "nightly");
  pass(5min);
  EXPECT_EQ(jobs(), 1U);
  end_last();
  pass(5min);
  EXPECT_EQ(jobs(), 2U);
}

TEST_F(SchedulesTest, SaysHowLongItNeedsNothingAndNothingWhereThereIsNone) {
  EXPECT_EQ(schedules_->step(), std::nullopt);
  make();
  EXPECT_EQ(schedules_->step(), std::optional<Duration>(1min)) << "the clock may be set";
  daemon_.clock.advance(9min + 40s);
  EXPECT_EQ(schedules_->step(), std::optional<Duration>(20s));
}

TEST_F(SchedulesTest, ARunIsLeftOutWhileTheLastOneHasNotEnded) {
  make();
  pass(10min);
  pass(10min);
  EXPECT_EQ(jobs(), 1U);
  EXPECT_NE(schedule().trouble.find("had not ended"), std::string::npos) << schedule().trouble;
  end_last();
  pass(10min);
  EXPECT_EQ(jobs(), 2U);
  EXPECT_EQ(schedule().trouble, "");
}

TEST_F(SchedulesTest, ARunOfAnArrayIsOverWhenItsLastTaskHasEnded) {
  make("", R"("array":{"first":0,"last":1},)");
  pass(10min);
  ASSERT_EQ(jobs(), 2U);
  const model::JobId first = schedule().last_job.value();
  daemon_.runtime.end({first, 1, 0}, 0);
  daemon_.settle();
  pass(10min);
  EXPECT_EQ(jobs(), 2U);
  EXPECT_EQ(schedule().trouble,
            fmt::format("a run was left out, because job {} had not ended", first.next()));
  daemon_.runtime.end({first.next(), 1, 0}, 0);
  daemon_.settle();
  pass(10min);
  EXPECT_EQ(jobs(), 4U);
}

TEST_F(SchedulesTest, AClockThatWasWrongByYearsAndIsSetRightTakesNoRunsAway) {
  make();
  constexpr auto kYears = 5 * 365 * 24h;
  daemon_.clock.shift_wall(kYears);
  pass(0s);
  EXPECT_GT(schedule().next.value() - daemon_.clock.wall_now(), 0s);
  daemon_.clock.shift_wall(-kYears);
  pass(0s);
  EXPECT_EQ(schedule().next.value() - daemon_.clock.wall_now(), 10min);
  // The same while no daemon runs.
  daemon_.clock.shift_wall(kYears);
  pass(0s);
  daemon_.clock.shift_wall(-kYears);
  replace_daemon();
  pass(0s);
  EXPECT_EQ(schedule().next.value() - daemon_.clock.wall_now(), 10min);
  pass(10min);
  EXPECT_EQ(jobs(), 1U);
}

TEST_F(SchedulesTest, AClockThatIsSetBackRunsNothingTwice) {
  make(R"("overlap":"allow",)");
  pass(10min);
  ASSERT_EQ(jobs(), 1U);
  daemon_.clock.shift_wall(-5min);
  pass(0s);
  pass(5min);
  EXPECT_EQ(jobs(), 1U);
  pass(10min);
  EXPECT_EQ(jobs(), 2U);
}

TEST_F(SchedulesTest, RunsOverlapWhereThatIsAllowed) {
  make(R"("overlap":"allow",)");
  pass(10min);
  pass(10min);
  EXPECT_EQ(jobs(), 2U);
}

TEST_F(SchedulesTest, WhatWasMissedIsSkippedOrRunOnce) {
  make();
  replace_daemon(1h);
  pass(0s);
  EXPECT_EQ(jobs(), 0U);
  EXPECT_NE(schedule().trouble.find("missed"), std::string::npos);
  EXPECT_GT(schedule().next.value(), daemon_.clock.wall_now());
  ASSERT_TRUE(schedules_->change("nightly", [](Schedule& one, WallTime now) {
    return change_schedule(one, R"({"missed":"once"})", now);
  }));
  replace_daemon(1h);
  pass(0s);
  EXPECT_EQ(jobs(), 1U) << "once, although six were missed";
}

TEST_F(SchedulesTest, ADaemonThatWasKilledBeforeItWroteDownARunDoesNotRunItTwice) {
  make(R"("missed":"once","overlap":"allow",)");
  const std::string before = write_schedule(schedule());
  pass(10min);
  ASSERT_EQ(jobs(), 1U);
  // As the disk was just after the submit.
  ASSERT_TRUE(daemon_.database->commit([&](store::Connection& connection) -> Status {
    DIVVY_TRY(row, store::ScheduleTable(connection).find("nightly"));
    row->document = before;
    DIVVY_TRY(done, store::ScheduleTable(connection).update(*row));
    EXPECT_TRUE(done);
    return {};
  }));
  replace_daemon();
  pass(0s);
  EXPECT_EQ(jobs(), 1U);
  EXPECT_EQ(schedule().last_job.has_value(), true);
}

TEST_F(SchedulesTest, OneThatIsSuspendedRunsNothingAndGoesOnWithoutWhatItMissed) {
  make(R"("missed":"once",)");
  const auto suspend = [&](const char* text) {
    ASSERT_TRUE(schedules_->change(
        "nightly", [&](Schedule& one, WallTime now) { return change_schedule(one, text, now); }));
  };
  suspend(R"({"suspended":true})");
  pass(1h);
  EXPECT_EQ(jobs(), 0U);
  suspend(R"({"suspended":false})");
  pass(0s);
  EXPECT_EQ(jobs(), 0U);
  pass(10min);
  EXPECT_EQ(jobs(), 1U);
}

TEST_F(SchedulesTest, NothingIsSubmittedForSomebodyWhoIsDisabled) {
  make();
  const auto set_disabled = [this](bool disabled) {
    const Status done = daemon_.database->commit([&](store::Connection& connection) -> Status {
      store::PeopleTable people(connection);
      DIVVY_TRY(ada, people.find("ada"));
      model::Person person = ada.value_or(model::Person{.name = "ada", .uid = {}, .created = {}});
      if (!ada) DIVVY_RETURN_IF_ERROR(people.add(person));
      person.disabled = disabled;
      return people.change(person);
    });
    ASSERT_TRUE(done.has_value()) << done.error().message;
  };
  set_disabled(true);
  pass(10min);
  EXPECT_EQ(jobs(), 0U);
  EXPECT_EQ(schedule().trouble, "a run was refused: ada is disabled");
  set_disabled(false);
  pass(10min);
  EXPECT_EQ(jobs(), 1U);
}

TEST_F(SchedulesTest, NamesAreGivenOnceAndWhatNeverComesIsRefused) {
  make();
  EXPECT_EQ(schedules_->make(read_new_schedule(kNightly).value(), "bob").error().message,
            "there is a schedule nightly already, of another user; take another --name");
  EXPECT_TRUE(schedules_->make(read_new_schedule(kNightly).value(), "ada")
                  .error()
                  .message.ends_with("or delete it first: divvy schedule delete nightly"));
  const auto never = schedules_->make(
      read_new_schedule(R"({"name":"n","every":"0 0 30 2 *","job":{"gpu":1,"command":["a"]}})")
          .value(),
      "ada");
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().message, "every: \"0 0 30 2 *\" never comes");
  EXPECT_EQ(schedules_->find("other").error().code, ErrorCode::kNotFound);
  const auto changed = schedules_->change("nightly", [](Schedule& one, WallTime now) {
    return change_schedule(one, R"({"every":"0 0 30 2 *"})", now);
  });
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().message, "every: \"0 0 30 2 *\" never comes");
  EXPECT_EQ(schedule().every.text(), "*/10 * * * *");
}

TEST_F(SchedulesTest, AJobThatHasNoRoomForTheLabelOfItsRunsIsRefusedAtOnce) {
  std::string labels;
  for (int i = 0; i < 64; ++i) labels += fmt::format("{}\"l{}\":\"x\"", i == 0 ? "" : ",", i);
  auto wanted = read_new_schedule(R"({"name":"n","every":"@daily","job":{"gpu":0.3,"labels":{)" +
                                  labels + R"(},"command":["train"]}})");
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  const auto made = schedules_->make(*std::move(wanted), "ada");
  ASSERT_FALSE(made);
  EXPECT_TRUE(made.error().message.starts_with("a run: labels: 65 labels are more"))
      << made.error().message;
}

TEST_F(SchedulesTest, WhoMayRemoveOneIsAskedAboutTheOneThatIsRemoved) {
  make();
  const auto refused = schedules_->remove("nightly", [](const Schedule& one) -> Status {
    return err(ErrorCode::kPermissionDenied, "it is {}'s", one.owner);
  });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "it is ada's");
  EXPECT_TRUE(schedules_->find("nightly"));
  const auto allowed = [](const Schedule& /*one*/) -> Status { return {}; };
  EXPECT_EQ(schedules_->remove("other", allowed).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(schedules_->remove("nightly", allowed));
  pass(1h);
  EXPECT_EQ(jobs(), 0U);
}

TEST(ScheduleDocument, IsReadAsItWasWritten) {
  Schedule one{.name = "x",
               .owner = "ada",
               .every = model::Cron::parse("@daily").value(),
               .job = read_new_schedule(kNightly)->job,
               .missed = MissedRuns::kOnce,
               .overlap = Overlap::kAllow,
               .suspended = true,
               .made = WallTime(5s),
               .next = WallTime(7s),
               .last_job = model::JobId(3),
               .last_at = WallTime(6s),
               .trouble = "none"};
  const std::string text = write_schedule(one);
  const auto read = read_schedule(text);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(write_schedule(*read), text);
  EXPECT_FALSE(read_schedule("{}"));
  EXPECT_FALSE(read_schedule(R"({"name":"x","owner":"a","every":"bad","job":{"gpu":1}})"));
}

}  // namespace
}  // namespace divvy::control
