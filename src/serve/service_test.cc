#include "serve/service.h"

#include <gtest/gtest.h>

#include "serve/testing.h"

namespace divvy::serve {
namespace {

std::string why_not(const Status& status) { return status ? "" : status.error().message; }

TEST(Service, ItsNameIsNoWordOfTheCommand) {
  EXPECT_TRUE(check_service_name("llama-3.1"));
  EXPECT_NE(why_not(check_service_name("rollback")).find("is a word of divvy serve"),
            std::string::npos);
  EXPECT_FALSE(check_service_name("two words"));
  EXPECT_FALSE(check_service_name(std::string(64, 'a')));
}

TEST(Service, WhatCouldEndALineOfAConfigurationIsRefused) {
  for (const std::string path :
       {"health", "/a b", "/a\nbind :80", "/a\"b", "/a#b", "/a\\b", "/$x", "/a'b", ""}) {
    Settings settings = test_settings(1, 1);
    settings.ready = path;
    EXPECT_NE(why_not(check(settings)).find("ready: "), std::string::npos) << path;
  }
  EXPECT_TRUE(check(test_settings(1, 1)));
}

TEST(Service, BoundsAreChecked) {
  Settings settings = test_settings(1, 1);
  settings.port = 80;
  EXPECT_NE(why_not(check(settings)).find("port: "), std::string::npos);
  EXPECT_FALSE(check(test_settings(3, 2)));
  EXPECT_FALSE(check(test_settings(0, 129)));
  settings = test_settings(1, 1);
  settings.scale.in_flight = 0;
  EXPECT_FALSE(check(settings));
}

TEST(Service, WhatCannotBeAReplicaIsRefused) {
  model::JobSpec job = test_replica();
  job.environment["PORT"] = "80";
  EXPECT_NE(why_not(check_replica(job)).find("environment.PORT"), std::string::npos);
  job = test_replica();
  job.array = model::ArraySpec{.first = 0, .last = 3};
  EXPECT_NE(why_not(check_replica(job)).find("array: "), std::string::npos);
  job = test_replica();
  job.retry.most = 1;
  EXPECT_FALSE(check_replica(job));
}

TEST(Service, TheOldestVersionsAreForgottenAndTheStableOneIsNot) {
  Service service = test_service(1, 1);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(update(service, test_replica(), 100, "ada", at_second(i)));
  }
  EXPECT_EQ(service.versions.size(), Service::kMostVersions);
  EXPECT_NE(service.find(1), nullptr);
  EXPECT_NE(service.find(51), nullptr);
  EXPECT_EQ(service.history.size(), Service::kMostHappenings);
  EXPECT_TRUE(check(service)) << why_not(check(service));
}

TEST(Service, ThereIsNothingToPromoteOrToGoBackToAtFirst) {
  Service service = test_service(1, 1);
  EXPECT_EQ(promote(service, 100, "ada", at_second(1)).error().code,
            ErrorCode::kFailedPrecondition);
  EXPECT_EQ(roll_back(service, {}, "ada", at_second(1)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(roll_back(service, 1, "ada", at_second(1)).error().code,
            ErrorCode::kFailedPrecondition);
  service.deleting = true;
  EXPECT_FALSE(update(service, test_replica(), 100, "ada", at_second(1)));
}

TEST(Service, AVersionThatWasTakenBackIsNotGoneBackTo) {
  Service service = test_service(1, 1);
  ASSERT_TRUE(update(service, test_replica(), 100, "ada", at_second(1)));
  ASSERT_TRUE(roll_back(service, {}, "ada", at_second(2)));
  EXPECT_EQ(service.versions.at(1).rejected, "taken back by ada");
  ASSERT_TRUE(update(service, test_replica(), 100, "ada", at_second(3)));
  service.stable = 3;
  service.candidate.reset();
  ASSERT_TRUE(roll_back(service, {}, "ada", at_second(4)));
  EXPECT_EQ(service.candidate->version, 1U);
}

TEST(Service, WhatIsNewInItsHistoryIsKnownAlsoWhenTheFirstOnesAreForgotten) {
  Service service = test_service(1, 1);
  for (int i = 0; i < 60; ++i) {
    const std::vector<Happening> before = service.history;
    EXPECT_TRUE(new_in(service.history, before).empty());
    service.tell(at_second(7), "the same");
    service.tell(at_second(8), fmt::format("{}", i));
    const auto news = new_in(service.history, before);
    ASSERT_EQ(news.size(), 2U) << i;
    EXPECT_EQ(news.back().text, fmt::format("{}", i));
  }
  EXPECT_EQ(new_in(service.history, {}).size(), service.history.size());
}

}  // namespace
}  // namespace divvy::serve
