#include "api/exposition.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "api/exposition_testing.h"

namespace divvy::api {
namespace {

using Type = Exposition::Type;
using ::divvy::testing::Scrape;

TEST(Exposition, WritesFamiliesWithTheirHelpAndTypeOnce) {
  Exposition out;
  out.begin("divvy_a_ratio", Type::kGauge, "What a \\ is.\nAnd more.");
  out.add(Labels().add("gpu", "0"), 0.25);
  out.add(Labels().add("gpu", "1").add("UUID", "GPU-1"), 1.0);
  out.begin("divvy_nothing", Type::kGauge, "Has no samples.");
  out.begin("divvy_b_total", Type::kCounter, "A counter.");
  out.add({}, std::uint64_t{18'446'744'073'709'551'615U});
  EXPECT_EQ(std::move(out).take(),
            "# HELP divvy_a_ratio What a \\\\ is.\\nAnd more.\n"
            "# TYPE divvy_a_ratio gauge\n"
            "divvy_a_ratio{gpu=\"0\"} 0.25\n"
            "divvy_a_ratio{gpu=\"1\",UUID=\"GPU-1\"} 1\n"
            "# HELP divvy_b_total A counter.\n"
            "# TYPE divvy_b_total counter\n"
            "divvy_b_total 18446744073709551615\n");
}

TEST(Exposition, WritesHistogramsInSecondsThatAddUp) {
  DurationCounts counts;
  counts.add(5'000);
  counts.add(2'000'000);
  counts.add(2'000'000);
  counts.add(60'000'000'000);
  Exposition out;
  out.begin("divvy_wait_seconds", Type::kHistogram, "Waits.");
  out.add(Labels().add("tenant", "a"), counts);
  const Scrape scrape(std::move(out).take());
  EXPECT_EQ(scrape.value("divvy_wait_seconds_bucket", {{"le", "0.0001"}}), 1);
  EXPECT_EQ(scrape.value("divvy_wait_seconds_bucket", {{"le", "0.005"}}), 3);
  EXPECT_EQ(scrape.value("divvy_wait_seconds_bucket", {{"le", "5"}}), 3);
  EXPECT_EQ(scrape.value("divvy_wait_seconds_bucket", {{"le", "+Inf"}, {"tenant", "a"}}), 4);
  EXPECT_EQ(scrape.value("divvy_wait_seconds_count", {{"tenant", "a"}}), 4);
  EXPECT_DOUBLE_EQ(scrape.value("divvy_wait_seconds_sum", {{"tenant", "a"}}), 60.004005);
}

TEST(Exposition, WritesNumbersThatAreNone) {
  Exposition out;
  out.begin("a", Type::kGauge, "A.");
  out.add(Labels().add("n", "1"), std::numeric_limits<double>::quiet_NaN());
  out.add(Labels().add("n", "2"), std::numeric_limits<double>::infinity());
  out.add(Labels().add("n", "3"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::move(out).take(),
            "# HELP a A.\n# TYPE a gauge\na{n=\"1\"} NaN\na{n=\"2\"} +Inf\na{n=\"3\"} -Inf\n");
}

TEST(Exposition, ALabelCannotEndItsLine) {
  Exposition out;
  out.begin("a", Type::kGauge, "A.");
  const std::string hostile = "x\"} 1\nb{c=\"\\";
  out.add(Labels().add("tenant", hostile), std::uint64_t{7});
  const Scrape scrape(std::move(out).take());
  EXPECT_EQ(scrape.value("a", {{"tenant", hostile}}), 7);
  EXPECT_EQ(scrape.families.size(), 1U);
}

TEST(Exposition, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(Labels()
                .add("a",
                     "\xff"
                     "b\xc3")
                .text(),
            "a=\"\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\"");
  EXPECT_EQ(Labels().add("a", "\xc3\xa9").text(), "a=\"\xc3\xa9\"");
}

RC_GTEST_PROP(ExpositionProperty, WhateverALabelHoldsTheLineParses,
              (const std::vector<std::string>& values, double number)) {
  Exposition out;
  out.begin("divvy_x", Type::kGauge, "X.");
  Labels labels;
  for (std::size_t i = 0; i < values.size(); ++i) labels.add("l" + std::to_string(i), values[i]);
  out.add(labels, number);
  const Scrape scrape(std::move(out).take());
  RC_ASSERT(scrape.families.at("divvy_x").samples.size() == 1U);
  RC_ASSERT(scrape.families.at("divvy_x").samples[0].labels.size() == values.size());
  RC_ASSERT(scrape.value("divvy_x") == number);
}

}  // namespace
}  // namespace divvy::api
