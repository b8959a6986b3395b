#include "api/queue_documents.h"

#include <gtest/gtest.h>

namespace divvy::api {
namespace {

jobs::QueueSettings research() {
  jobs::QueueSettings settings;
  settings.path = "research/vision";
  settings.quota = {.share = Share(4000), .memory = gib(320), .jobs = 20};
  settings.per_user = {.share = Share(1500), .memory = {}, .jobs = 5};
  settings.may_borrow = false;
  settings.most_share = Share(8000);
  settings.weight = 3;
  settings.time = {model::Seconds(600), model::Seconds(3600)};
  settings.idle = jobs::IdlePolicy{model::Seconds(3600), model::Seconds(600)};
  return settings;
}

TEST(QueueDocuments, CarryEveryField) {
  const jobs::QueueSettings queue = research();
  const auto again = read_queue_settings(queue.path, write_queue_settings(queue));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, queue);
  jobs::UserSettings user;
  user.name = "ada";
  user.most = {.share = Share(2500), .memory = {}, .jobs = 3};
  user.weight = 2;
  EXPECT_EQ(read_user_settings("ada", write_user_settings(user)).value(), user);
}

TEST(QueueDocuments, WhatIsMissingGetsItsDefault) {
  jobs::QueueSettings expected;
  expected.path = "a";
  EXPECT_EQ(read_queue_settings("a", "{}").value(), expected);
}

TEST(QueueDocuments, RefusesWhatMakesNoSenseAndNamesIt) {
  const auto refusal = [](const char* text) {
    const auto read = read_queue_settings("a", text);
    return read ? std::string("it was taken") : read.error().message;
  };
  EXPECT_NE(refusal(R"({"gpu":"many"})").find("gpu: "), std::string::npos);
  EXPECT_NE(refusal(R"({"idle_after":"soon"})").find("idle_after: "), std::string::npos);
  EXPECT_NE(refusal(R"({"idle_warning":"1m"})").find("idle_after"), std::string::npos);
  EXPECT_NE(refusal(R"({"wieght":1})").find("did you mean weight?"), std::string::npos);
  EXPECT_FALSE(read_queue_settings("a//b", "{}").has_value());
}

TEST(QueueDocuments, WhatWasSetLaterTakesThePlaceOfTheFile) {
  jobs::Settings file;
  file.queues.resize(2);
  file.queues[0].path = "research/vision";
  file.queues[1].path = "other";
  file.queues[1].weight = 7;
  file.users = {{.name = "ada", .most = {}, .weight = 1}};
  const auto settings =
      with_stored_settings(file, {{"research/vision", write_queue_settings(research())}},
                           {{"ada", R"({"weight":9})"}, {"bob", "{}"}});
  ASSERT_TRUE(settings.has_value()) << settings.error().message;
  ASSERT_EQ(settings->queues.size(), 2U);
  EXPECT_EQ(settings->queues[0], research());
  EXPECT_EQ(settings->queues[1].weight, 7U);
  ASSERT_EQ(settings->users.size(), 2U);
  EXPECT_EQ(settings->users[0].weight, 9U);

  const auto damaged = with_stored_settings({}, {{"x", "nonsense"}}, {});
  ASSERT_FALSE(damaged.has_value());
  EXPECT_NE(damaged.error().message.find("the stored queue x"), std::string::npos);
}

}  // namespace
}  // namespace divvy::api
