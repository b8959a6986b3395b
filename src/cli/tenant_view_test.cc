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

TEST(TopView, FitsTheTerminalWhateverItsWidth) {
  for (std::size_t width = 66; width <= 160; ++width) {
    Style style = plain_style();
    style.columns = width;
    for (const Line& line : top_lines(stats(), {}, {}, style)) {
      const std::string text = to_text({line}, plain_style());
      EXPECT_LE(display_width(text.substr(0, text.size() - 1)), width) << text;
    }
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
