#include "sim/pack_report.h"

#include <gtest/gtest.h>

namespace divvy::sim {
namespace {

PackRun run(const std::string& sequence, std::map<std::uint64_t, PackLevel> levels,
            std::uint64_t failed) {
  PackRun result;
  result.sequence = sequence;
  result.levels = std::move(levels);
  result.arrivals = 10;
  result.failed = failed;
  result.alloc = result.levels.rbegin()->second.alloc;
  return result;
}

PackReport report(const std::string& policy) {
  return {.policy = policy,
          .seed = 42,
          .runs = {run("a.txt", {{50, {50, 6, 12}}, {100, {90, 8, 80}}}, 2),
                   run("b.txt", {{100, {92, 6, 75}}}, 4)}};
}

TEST(PackReport, MeansAreOfTheRunsThatReachedALevel) {
  const auto mean = report("fgd").mean();
  ASSERT_EQ(mean.size(), 2U);
  EXPECT_EQ(mean.at(50), (PackLevel{50, 6, 12}));
  EXPECT_EQ(mean.at(100), (PackLevel{91, 7, 77.5}));
}

TEST(PackReport, TableOfOnePolicyHasEverything) {
  const std::vector<PackReport> reports{report("fgd")};
  EXPECT_EQ(pack_table(reports, LevelFilter::parse("all").value()),
            (TableCells{{"ARRIVED", "ALLOCATED", "UNALLOCATED", "FRAGMENTED", "OF FREE"},
                        {"50 %", "50.00", "50.00", "6.00", "12.00"},
                        {"100 %", "91.00", "9.00", "7.00", "77.50"}}));
}

TEST(PackReport, TableOfSeveralPoliciesHasThemSideBySide) {
  std::vector<PackReport> reports{report("fgd"), report("divvy")};
  reports[1].runs.front().levels.erase(50);
  EXPECT_EQ(pack_table(reports, LevelFilter::parse("all").value()),
            (TableCells{
                {"ARRIVED", "fgd", "divvy"}, {"50 %", "50.00", ""}, {"100 %", "91.00", "91.00"}}));
}

TEST(PackReport, LevelsAreNumbersAndRanges) {
  const auto some = LevelFilter::parse("50, 90-100").value();
  EXPECT_TRUE(some(50));
  EXPECT_FALSE(some(51));
  EXPECT_TRUE(some(90));
  EXPECT_TRUE(some(100));
  EXPECT_TRUE(LevelFilter::parse("all").value()(7));
  for (const char* wrong : {"", "x", "5-", "-5", "9-5", "1,,2", "99999999999999999999999"}) {
    EXPECT_FALSE(LevelFilter::parse(wrong)) << wrong;
  }
  EXPECT_EQ(LevelFilter::parse("x").error().message,
            "\"x\" are no levels; write all, or numbers and ranges like 50,80,90-130");
}

TEST(PackReport, SummaryTellsWhoFoundNoPlace) {
  const std::vector<PackReport> reports{report("fgd")};
  EXPECT_EQ(
      pack_summary(reports),
      "fgd: 91.00 % of the GPUs allocated at the end; 3 of 10 pods found no place (means of 2 "
      "sequences)\n");
}

TEST(PackReport, DocumentHasTheAgreedKeys) {
  const std::vector<PackReport> reports{report("fgd")};
  EXPECT_EQ(pack_document(reports), R"({
  "policy": "fgd",
  "runs": [
    {
      "sequence": "a.txt",
      "seed": 42,
      "arrivals": 10,
      "failed": 2,
      "alloc": {"50": 50.0000, "100": 90.0000},
      "unallocated": {"50": 50.0000, "100": 10.0000},
      "frag": {"50": 6.0000, "100": 8.0000},
      "frag_ratio": {"50": 12.0000, "100": 80.0000}
    },
    {
      "sequence": "b.txt",
      "seed": 43,
      "arrivals": 10,
      "failed": 4,
      "alloc": {"100": 92.0000},
      "unallocated": {"100": 8.0000},
      "frag": {"100": 6.0000},
      "frag_ratio": {"100": 75.0000}
    }
  ],
  "mean": {
    "alloc": {"50": 50.0000, "100": 91.0000},
    "unallocated": {"50": 50.0000, "100": 9.0000},
    "frag": {"50": 6.0000, "100": 7.0000},
    "frag_ratio": {"50": 12.0000, "100": 77.5000},
    "failed": 3.0
  }
}
)");
}

TEST(PackReport, DocumentOfSeveralPoliciesIsAList) {
  const std::vector<PackReport> reports{report("fgd"), report("divvy")};
  const std::string document = pack_document(reports);
  EXPECT_TRUE(document.starts_with("{\"policies\": [\n{\n  \"policy\": \"fgd\""));
  EXPECT_NE(document.find("\"policy\": \"divvy\""), std::string::npos);
  EXPECT_TRUE(document.ends_with("}\n]}\n"));
}

TEST(PackReport, DocumentQuotesWhatItDidNotWriteItself) {
  std::vector<PackReport> reports{report("fgd")};
  reports[0].runs[0].sequence = "a\"\\\n\x1b\xff\u202e.txt";
  EXPECT_NE(pack_document(reports).find(R"("sequence": "a\"\\\u000a\u001b\ufffd\u202e.txt")"),
            std::string::npos);
}

TEST(PackReport, FigureBeginsWhereThePoliciesPart) {
  PackReport early = report("early");
  std::map<std::uint64_t, PackLevel> levels;
  for (std::uint64_t level = 0; level <= 130; ++level) {
    levels[level] = {std::min(90.0, static_cast<double>(level)), 5, 50};
  }
  early.runs = {run("a", levels, 0)};
  const std::vector<PackReport> reports{early};
  const Figure figure = pack_figure(reports);
  ASSERT_EQ(figure.charts.size(), 2U);
  EXPECT_DOUBLE_EQ(figure.charts[0].series[0].points.front().x, 91 - 15);
  EXPECT_DOUBLE_EQ(figure.charts[1].series[0].points.front().x, 0);
  EXPECT_EQ(figure.charts[0].series[0].name, "early");
  EXPECT_EQ(figure.title, "divvy sim pack, mean of 1 sequence");
}

}  // namespace
}  // namespace divvy::sim
