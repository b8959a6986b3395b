#include "gpuload/report.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>

namespace divvy::gpuload {
namespace {

TEST(Report, WritesJsonThatReadsBackInOrder) {
  Report report;
  report.set("mode", "spin");
  report.set("launches", uint64_t{18446744073709551615ULL});
  report.set("share", 0.5);
  report.set("note", std::string("a \"quote\"\n"));
  report.object("device").set("index", 0);
  report.append("families").set("family", "plain");
  report.append("families").set("family", "vmm");
  const auto parsed = boost::json::parse(report.json());
  EXPECT_EQ(parsed.at("mode"), "spin");
  EXPECT_EQ(parsed.at("launches").as_uint64(), 18446744073709551615ULL);
  EXPECT_DOUBLE_EQ(parsed.at("share").as_double(), 0.5);
  EXPECT_EQ(parsed.at("note"), "a \"quote\"\n");
  EXPECT_EQ(parsed.at("device").at("index").as_int64(), 0);
  EXPECT_EQ(parsed.at("families").as_array().size(), 2U);
  EXPECT_EQ(parsed.as_object().begin()->key(), "mode");
}

TEST(Report, SettingAgainReplaces) {
  Report report;
  report.set("a", 1);
  report.set("a", 2);
  EXPECT_EQ(report.json(), "{\n  \"a\": 2\n}\n");
}

TEST(Report, NumbersThatJsonDoesNotHaveBecomeNull) {
  Report report;
  report.set("a", std::numeric_limits<double>::infinity());
  EXPECT_TRUE(boost::json::parse(report.json()).at("a").is_null());
}

TEST(Report, WritesNumbersAsAList) {
  Report report;
  report.set("ends", std::vector<double>{0, 1234.5678});
  report.set("none", std::vector<double>());
  EXPECT_EQ(report.json(), "{\n  \"ends\": [0.000, 1234.568],\n  \"none\": []\n}\n");
}

TEST(Report, TextIndentsNestedObjects) {
  Report report;
  report.set("mode", "info");
  report.object("device").set("name", "H200");
  EXPECT_EQ(report.text(), "mode: info\ndevice:\n  name: H200\n");
}

}  // namespace
}  // namespace divvy::gpuload
