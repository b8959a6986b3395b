#include "control/notification.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "control/testing.h"
#include "store/notification_table.h"

namespace divvy::control {
namespace {

namespace json = boost::json;
using model::JobEnd;
using model::JobState;
using testing::TestDaemon;

model::Job ended_job(JobState state, std::vector<model::MemberEnd> ends) {
  const auto second = [](int number) { return WallTime(std::chrono::seconds(number)); };
  model::Job job(model::JobId(17), "ada", jobs::testing::spec(300), second(10));
  job.spec.name = "train";
  job.spec.queue = "research";
  job.spec.command = {"python", "secret.py"};
  job.spec.environment = {{"KEY", "secret"}};
  job.spec.labels = {{"note", "secret"}};
  job.spec.notify = model::Notify{.url = "https://ada:secret@hooks.example/x?key=secret"};
  job.state = state;
  job.attempt = 2;
  job.failures = 1;
  job.started = second(20);
  job.ended = second(30);
  job.history.push_back({second(30), state, "rank 1 ended with 3"});
  for (std::size_t i = 0; i < ends.size(); ++i) {
    job.members.push_back({static_cast<std::uint32_t>(i), "node-a", {}, ends[i]});
  }
  return job;
}

TEST(Notification, SaysHowTheJobEndedAndNothingOfWhatItRuns) {
  const WallTime now{};
  const auto row =
      notification_of(ended_job(JobState::kFailed, {{now + std::chrono::seconds(2), 143, 0, ""},
                                                    {now + std::chrono::seconds(1), 3, 0, ""}}));
  ASSERT_TRUE(row);
  EXPECT_EQ(row->owner, "ada");
  EXPECT_EQ(row->url, "https://ada:secret@hooks.example/x?key=secret");
  EXPECT_EQ(json::parse(row->body),
            json::parse(R"({"id": 17, "name": "train", "owner": "ada", "queue": "research",
                "state": "failed", "reason": "rank 1 ended with 3", "exitCode": 3, "signal": 0,
                "attempt": 2, "failures": 1, "array": null, "arrayIndex": null,
                "submittedUnixMilliseconds": 10000, "startedUnixMilliseconds": 20000,
                "endedUnixMilliseconds": 30000})"));
  EXPECT_EQ(row->body.find("secret"), std::string::npos) << row->body;
}

TEST(Notification, OnlyOfEndsThatSomebodyWantsToKnowOf) {
  model::Job job = ended_job(JobState::kSucceeded, {});
  EXPECT_TRUE(notification_of(job));
  EXPECT_TRUE(json::parse(notification_of(job)->body).at("exitCode").is_null());
  job.spec.notify->on = {JobEnd::kFailed, JobEnd::kCancelled};
  EXPECT_FALSE(notification_of(job));
  job.state = JobState::kCancelled;
  EXPECT_TRUE(notification_of(job));
  job.state = JobState::kRunning;
  EXPECT_FALSE(notification_of(job));
  job.state = JobState::kFailed;
  job.spec.notify.reset();
  EXPECT_FALSE(notification_of(job));
}

class NotificationStep : public ::testing::Test {
 protected:
  model::JobId submit() {
    NewJob wanted(jobs::testing::spec(300));
    wanted.owner = "ada";
    wanted.spec.notify = model::Notify{.url = "https://hooks.example/divvy"};
    return daemon_.dispatcher->submit(wanted)->jobs.front().id;
  }
  std::optional<store::NotificationRow> message() {
    return *daemon_.database->read([&](store::Connection& connection) {
      return store::NotificationTable(connection)
          .next("ada", daemon_.clock.wall_now() + std::chrono::hours(1));
    });
  }

  TestDaemon daemon_;
};

TEST_F(NotificationStep, IsWrittenInTheChangeThatEndsTheJob) {
  const model::JobId id = submit();
  daemon_.settle();
  EXPECT_FALSE(message());
  ASSERT_TRUE(daemon_.dispatcher->cancel(id, "ada"));
  daemon_.settle();
  daemon_.kill();
  daemon_.open();
  ASSERT_EQ(daemon_.stored(id).state, JobState::kCancelled);
  ASSERT_TRUE(message());
  EXPECT_EQ(message()->job, id);
  EXPECT_EQ(message()->ended, daemon_.stored(id).ended);
}

TEST_F(NotificationStep, AWebhookThatIsNotAllowedIsRefusedAtSubmit) {
  NewJob wanted(jobs::testing::spec(300));
  wanted.owner = "ada";
  wanted.spec.notify = model::Notify{.url = "https://hooks.example/divvy"};
  daemon_.kill();
  daemon_.check_notify = [](const model::Notify&) {
    return err(ErrorCode::kPermissionDenied, "notify: no");
  };
  daemon_.open();
  EXPECT_EQ(daemon_.dispatcher->submit(wanted).error().message, "notify: no");
  daemon_.kill();
  daemon_.check_notify = {};
  daemon_.open();
  EXPECT_EQ(daemon_.dispatcher->submit(wanted).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace divvy::control
