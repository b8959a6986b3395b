#include "cli/sweep.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <boost/json.hpp>

namespace divvy::cli {
namespace {

namespace json = boost::json;

SweepAxis axis(std::string_view text) { return parse_sweep_axis(text).value(); }
std::string error_of(std::string_view text) {
  const auto parsed = parse_sweep_axis(text);
  return parsed ? "" : parsed.error().message;
}

TEST(SweepAxis, HasValuesOrARange) {
  EXPECT_EQ(axis("lr=0.1,0.01"), (SweepAxis{"lr", {"0.1", "0.01"}}));
  EXPECT_EQ(axis("seed=-1..2"), (SweepAxis{"seed", {"-1", "0", "1", "2"}}));
  EXPECT_EQ(axis("x=a=b"), (SweepAxis{"x", {"a=b"}}));
}

TEST(SweepAxis, WrongOnesAreRefusedWithTheReason) {
  EXPECT_EQ(error_of("lr"), "--sweep: \"lr\" is not like lr=0.1,0.01 or seed=0..4");
  EXPECT_NE(error_of("=1"), "");
  EXPECT_NE(error_of("a b=1"), "");
  EXPECT_TRUE(error_of("lr=0.1,,2").ends_with(": a value is empty"));
  EXPECT_TRUE(error_of("seed=4..0").ends_with(": 4 to 0 is no range of 1 to 1000 numbers"));
  EXPECT_TRUE(error_of("seed=0..1000").ends_with("no range of 1 to 1000 numbers"));
  EXPECT_TRUE(
      error_of("s=-9223372036854775808..9223372036854775807").ends_with("of 1 to 1000 numbers"));
  EXPECT_TRUE(error_of("seed=0..x").ends_with(": x is no whole number"));
}

TEST(Sweep, PathsAreNoRangesAndTheLastNumberThereIsEndsOne) {
  EXPECT_EQ(axis("data=../a,../b").values, (std::vector<std::string>{"../a", "../b"}));
  EXPECT_EQ(axis("data=/x/../y").values, (std::vector<std::string>{"/x/../y"}));
  EXPECT_EQ(axis("s=9223372036854775806..9223372036854775807").values.size(), 2U);
}

TEST(Sweep, HasAJobForEachCombination) {
  const auto points = sweep_points({axis("lr=1,2"), axis("seed=0..2")});
  ASSERT_TRUE(points.has_value());
  ASSERT_EQ(points->size(), 6U);
  EXPECT_EQ((*points)[0], (SweepPoint{{"lr", "1"}, {"seed", "0"}}));
  EXPECT_EQ((*points)[1], (SweepPoint{{"lr", "1"}, {"seed", "1"}}));
  EXPECT_EQ((*points)[5], (SweepPoint{{"lr", "2"}, {"seed", "2"}}));
  EXPECT_FALSE(sweep_points({axis("a=0..999"), axis("b=1,2")}));
  EXPECT_FALSE(sweep_points({axis("a=1"), axis("a=2")}));
}

TEST(Sweep, WritesValuesWhereTheyBelong) {
  json::object document{{"command", {"train", "--lr={lr}", "{other}"}},
                        {"environment", {{"SEED", "{seed}"}}},
                        {"labels", {{"team", "vision"}}}};
  ASSERT_TRUE(put_sweep_point({{"lr", "{seed}"}, {"seed", "3"}}, "train-1", document));
  EXPECT_EQ(json::serialize(document["environment"]), R"({"SEED":"3"})");
  EXPECT_EQ(json::serialize(document["labels"]),
            R"({"team":"vision","sweep":"train-1","sweep.lr":"{seed}","sweep.seed":"3"})");
  const Status nowhere = put_sweep_point({{"depth", "1"}}, "train-1", document);
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().message,
            "--sweep depth: write {depth} where its value belongs, in the command or in --env");
}

TEST(Metrics, AreThoseOfTheLastLineThatHasSome) {
  EXPECT_EQ(
      metrics_in("{\"loss\": 3}\nepoch 2\n{\"loss\": 0.5, \"step\": 7, \"note\": \"x\"}\nbye\n"),
      (Metrics{{"loss", 0.5}, {"step", 7}}));
  EXPECT_EQ(metrics_in("{\"loss\": 1}\n{\"done\": true}\n{ torn"), (Metrics{{"loss", 1}}));
  EXPECT_EQ(metrics_in("nothing\n[1]\n{}"), Metrics{});
  EXPECT_EQ(metrics_in(""), Metrics{});
}

TEST(Metrics, OfARunThatDivergedAreNotThoseOfALineBefore) {
  const Metrics metrics = metrics_in(
      "{\"loss\": 0.5}\n"
      "{\"loss\": NaN, \"norm\": -Infinity, \"top\": \"Infinity\", \"note\": \"a \\\"NaN\\\" "
      "b\"}\n");
  ASSERT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics[0].first, "loss");
  EXPECT_TRUE(std::isnan(metrics[0].second));
  EXPECT_EQ(metrics[1], std::pair(std::string("norm"), -std::numeric_limits<double>::infinity()));
  EXPECT_EQ(metrics[2], std::pair(std::string("top"), std::numeric_limits<double>::infinity()));
}

}  // namespace
}  // namespace divvy::cli
