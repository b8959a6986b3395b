#include "serve/service_document.h"

#include <gtest/gtest.h>

#include "serve/testing.h"

namespace divvy::serve {
namespace {

TEST(ServiceDocument, IsReadAsItWasWritten) {
  Service service = test_service(0, 5);
  ASSERT_TRUE(update(service, test_replica("other"), 10, "ada", at_second(5)));
  service.find(1)->failures = 2;
  service.find(1)->failed_at = at_second(7);
  service.replicas[model::JobId(7)] = {1, true, at_second(3), {}};
  service.replicas[model::JobId(9)] = {2, false, at_second(4), at_second(6)};
  const auto again = read_service(write_service(service));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, service);
}

TEST(ServiceDocument, WhatDoesNotFitTogetherIsDamage) {
  Service service = test_service(1, 1);
  service.stable = 7;
  EXPECT_EQ(read_service(write_service(service)).error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(read_service("{}").error().code, ErrorCode::kDataLoss);
}

TEST(ServiceDocument, ABodyNamesWhatIsWrongWithIt) {
  const auto refusal = [](std::string_view body) { return read_new_service(body).error().message; };
  EXPECT_EQ(refusal(R"({"port": 8000, "job": {"gpu": 0.2}})"), "name: it is missing");
  EXPECT_EQ(refusal(R"({"name": "a", "port": 8000, "job": {"gpu": 0.2, "comand": []}})"),
            "job: comand: there is no such field; did you mean command?");
  EXPECT_NE(refusal(R"({"name": "a", "port": 70000, "job": {}})").find("port: "),
            std::string::npos);
  EXPECT_NE(refusal(R"({"name": "a", "port": 80, "job": {"gpu": 1}, "replicas": {"lest": 1}})")
                .find("replicas.lest"),
            std::string::npos);
}

TEST(ServiceDocument, AChangeLeavesWhatItDoesNotName) {
  const auto changed = read_settings_change(test_settings(1, 3), R"({"replicas": {"most": 5}})");
  ASSERT_TRUE(changed);
  EXPECT_EQ(*changed, test_settings(1, 5));
}

TEST(ServiceDocument, NothingIsAWholePromotionAndTheVersionBefore) {
  EXPECT_EQ(read_promotion("").value(), 100U);
  EXPECT_EQ(read_promotion(R"({"weight": 30})").value(), 30U);
  EXPECT_EQ(read_roll_back("").value(), std::nullopt);
  EXPECT_EQ(read_roll_back(R"({"to": 3})").value(), VersionNumber{3});
}

}  // namespace
}  // namespace divvy::serve
