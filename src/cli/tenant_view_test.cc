// What `divvy ps` and `divvy top` draw from what the daemon says.
#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/table.h"
#include "cli/tenant_list.h"
#include "cli/testing.h"
#include "cli/top_view.h"

namespace divvy::cli {
namespace {

// Two tenants on one GPU; nobody knows what the second uses.
std::string tenant(int id, const std::string& name, const std::string& used) {
  return R"({"id":)" + std::to_string(id) + R"(,"name":")" + name +
         R"(","user":"ada","uid":1,"pid":7,"command":"python train.py --epochs 100",)"
         R"("sinceUnixSeconds":0,"class":"batch","mode":"timeslice","state":"running","slices":[{)"
         R"("gpu":{"index":0,"uuid":"GPU-1","model":"NVIDIA H200"},"shareThousandths":300,)"
         R"("capped":true,"memoryLimitBytes":10737418240,"memoryUsedBytes":1073741824,)"
         R"("memoryPeakBytes":2147483648,"memoryUncountedBytes":0,"allocationsRefused":0,)"
         R"("usedShareThousandths":)" +
         used +
         R"(,"waitedShareThousandths":50,"usedNanoseconds":0,"waitedNanoseconds":0,)"
         R"("cappedNanoseconds":0,"leases":0,"gateOpen":true,"gated":false,"wants":false,)"
         R"("gatesUnavailable":false}],"processes":[]})";
}

std::string tenants() { return tenant(1, "first", "312") + "," + tenant(2, "second", "null"); }

Stats stats() {
  return parse_stats(R"({"hostname":"here","simulated":true,"waiting":0,"gpus":[{"index":0,)"
                     R"("uuid":"GPU-1","model":"NVIDIA H200","memoryBytes":150000000000,)"
                     R"("freeShareThousandths":400,"freeMemoryBytes":0,"mode":null,)"
                     R"("unusable":null}],"tenants":[)" +
                     tenants() + "]}")
      .value();
}

TEST(TenantTable, ShowsADashWhereNobodyKnowsWhatIsUsed) {
  const auto table =
      tenant_table(R"({"waiting":1,"items":[)" + tenants() + "]}", plain_style(), false);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_NE(table->find("0.3 cap  31.2%"), std::string::npos) << *table;
  EXPECT_NE(table->find("0.3 cap      -"), std::string::npos) << *table;
  EXPECT_NE(table->find("1 more waits for a place"), std::string::npos) << *table;
}

TEST(TenantChange, SaysWhatWasAndWhatIs) {
  const auto of = [](const std::string& text) { return Answer::parse(text).value(); };
  const Answer before = of(tenant(3, "train", "312"));
  const Answer after = of(R"({"id":3,"name":"train","class":"latency","slices":[
      {"shareThousandths":500,"capped":true,"memoryLimitBytes":21474836480}]})");
  EXPECT_EQ(change_text(before, after, plain_style()),
            "tenant 3 (train): share 0.3 -> 0.5, memory limit 10.0 GiB -> 20.0 GiB, class batch -> "
            "latency\n");
  EXPECT_EQ(change_text(before, before, plain_style()),
            "tenant 3 (train): nothing changed, it was so already\n");
  EXPECT_EQ(change_text({}, after, plain_style()),
            "tenant 3 (train): share 0.5, memory limit 20.0 GiB, cap on, class latency\n");
}

TEST(TopView, FitsTheTerminalWhateverItsWidth) {
  for (std::size_t width = 40; width <= 160; ++width) {
    Style style = plain_style();
    style.columns = width;
    for (const Line& line : top_lines(stats(), {}, {}, style)) {
      const std::string text = to_text({line}, plain_style());
      EXPECT_LE(display_width(text.substr(0, text.size() - 1)), width) << text;
    }
  }
}

Stats crowded(std::size_t gpus) {
  Stats many = stats();
  for (std::size_t i = 1; i < gpus; ++i) {
    many.gpus.push_back(many.gpus.front());
    many.gpus.back().index = static_cast<std::uint32_t>(i);
  }
  add_waiting_jobs(many, R"({"items":[
      {"id":9,"name":"newer","owner":"bob","queue":"default","members":4,"shareThousandths":1000},
      {"id":8,"name":"older","owner":"ada","queue":"default","members":1,"shareThousandths":300}],
      "next":8})");
  return many;
}

TEST(TopView, ShowsTheJobsThatWaitInTheirOrder) {
  Style style = plain_style();
  style.columns = 100;
  const std::string text = to_text(top_lines(crowded(1), {}, {}, style), style);
  EXPECT_NE(text.find("2 jobs or more in the queue"), std::string::npos) << text;
  EXPECT_NE(text.find("  ID WAITING JOB"), std::string::npos) << text;
  EXPECT_LT(text.find("   8 older"), text.find("   9 newer")) << text;
  EXPECT_NE(text.find("default        4 x 1"), std::string::npos) << text;
}

TEST(TopView, FitsTwelveLinesOfSixtyColumns) {
  for (std::size_t gpus = 1; gpus <= 16; ++gpus) {
    Style style = plain_style();
    style.columns = 60;
    const auto lines = top_lines(crowded(gpus), {}, {.filter = "", .rows = 11}, style);
    const std::string text = to_text(lines, style);
    EXPECT_LE(lines.size(), 11U) << text;
    for (const Line& line : lines) {
      const std::string row = to_text({line}, style);
      EXPECT_LE(display_width(row.substr(0, row.size() - 1)), 60U) << row;
    }
    for (const char* piece : {"GPU 0", "first", "second", "older", "newer"}) {
      EXPECT_NE(text.find(piece), std::string::npos) << piece << "\n" << text;
    }
    EXPECT_EQ(gpus > 4, text.find("more GPUs") != std::string::npos) << gpus << "\n" << text;
  }
}

TEST(TopView, DropsWhatMattersLeastWhereItIsNarrow) {
  const auto drawn = [](std::size_t width) {
    Style style = plain_style();
    style.columns = width;
    return to_text(top_lines(stats(), {}, {}, style), style);
  };
  for (const char* title : {"USER", "LIMIT", "WAITING", "CLASS", "COMMAND"}) {
    EXPECT_NE(drawn(140).find(title), std::string::npos) << title;
    EXPECT_EQ(drawn(70).find(title), std::string::npos) << title;
  }
  for (const char* title : {"TENANT", "GPU", "SHARE", "USED", "MEMORY", "STATE"}) {
    EXPECT_NE(drawn(70).find(title), std::string::npos) << title;
  }
}

}  // namespace
}  // namespace divvy::cli
