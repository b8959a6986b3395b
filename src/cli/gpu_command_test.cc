#include "cli/gpu_command.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/events_command.h"
#include "cli/testing.h"

namespace divvy::cli {
namespace {

bool has(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

// Two GPUs as the daemon describes them: one in trouble with a tenant on it, one cordoned.
std::string gpus() {
  return R"({"items":[{"index":0,"uuid":")" + model::test_uuid(0).str() +
         R"(","model":"NVIDIA H200","state":"quarantined","reason":"XID 79: off the bus",)"
         R"("cordoned":false,"draining":false,"cordonReason":null,)"
         R"("tenants":[{"id":3,"name":"train"}]},)"
         R"({"index":1,"uuid":")" +
         model::test_uuid(1).str() +
         R"(","model":"NVIDIA H200","state":"healthy","reason":null,"cordoned":true,)"
         R"("draining":false,"cordonReason":"new fan","tenants":[]}]})";
}

TEST(HealthTable, ShowsStateCordonTenantsAndReason) {
  const auto table = health_table(gpus(), plain_style());
  ASSERT_TRUE(table);
  EXPECT_TRUE(has(*table, "quarantined")) << *table;
  EXPECT_TRUE(has(*table, "XID 79: off the bus"));
  EXPECT_TRUE(has(*table, "train"));
  EXPECT_TRUE(has(*table, "cordoned: new fan"));
  EXPECT_FALSE(health_table("{}", plain_style()));
}

TEST(WithHealth, TheDaemonsWordGoesBeforeTheDrivers) {
  const model::Node node = with_health(test_node(test_parts(2)), gpus());
  EXPECT_EQ(node.gpus()[0].health.state, model::HealthState::kQuarantined);
  EXPECT_EQ(node.gpus()[0].health.reason, "XID 79: off the bus");
  EXPECT_EQ(node.gpus()[1].health.state, model::HealthState::kHealthy);
  EXPECT_EQ(node.gpus()[1].health.reason, "cordoned: new fan");
  // An answer that is not understood changes nothing.
  EXPECT_EQ(with_health(test_node(test_parts(2)), "{}"), test_node(test_parts(2)));
}

TEST(EventLines, AreForPeopleOrForPrograms) {
  const std::string document =
      R"({"last":7,"items":[{"number":7,"unixMilliseconds":1767225600000,"kind":"health","gpu":0,)"
      R"("uuid":null,"tenant":null,"state":"quarantined","reason":"XID 79"},)"
      R"({"number":8,"unixMilliseconds":1767225600000,"kind":"tenant","gpu":0,"uuid":null,)"
      R"("tenant":"train","state":null,"reason":"its GPU 0 is quarantined"}]})";
  std::uint64_t last = 0;
  const auto lines = event_lines(document, OutputFormat::kTable, plain_style(), last);
  ASSERT_TRUE(lines);
  EXPECT_EQ(*lines,
            "2026-01-01T00:00:00Z  health    GPU 0   quarantined  XID 79\n"
            "2026-01-01T00:00:00Z  tenant    GPU 0   train: its GPU 0 is quarantined\n");
  EXPECT_EQ(last, 7U);
  const auto objects = event_lines(document, OutputFormat::kJson, plain_style(), last);
  ASSERT_TRUE(objects);
  EXPECT_TRUE(objects->starts_with("{\"number\":7,"));
  EXPECT_EQ(std::count(objects->begin(), objects->end(), '\n'), 2);
}

}  // namespace
}  // namespace divvy::cli
