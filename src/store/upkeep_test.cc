#include "store/upkeep.h"

#include <gtest/gtest.h>

#include "store/event_table.h"
#include "store/testing.h"
#include "store/usage_table.h"

namespace divvy::store {
namespace {

using UpkeepTest = TableTest;

TEST_F(UpkeepTest, ForgetsWhatIsTooOldAndKeepsTheRest) {
  const WallTime now = at_second(1'800'000'000);
  const auto used = [](WallTime at, std::uint64_t job) {
    UsageRow row;
    row.from = at;
    row.job = model::JobId(job);
    row.attempt = 1;
    row.owner = "ada";
    row.queue = "default";
    row.held = 1;
    return row;
  };
  Submission old_key = test_submission(1);
  old_key.key = "old";
  old_key.at = now - kKeepKeys - std::chrono::seconds(1);
  Submission new_key = test_submission(1);
  new_key.key = "new";
  new_key.at = now - kKeepKeys + std::chrono::seconds(1);
  commit([&](Connection& connection) -> Status {
    DIVVY_TRY(first, submit(connection, old_key));
    DIVVY_TRY(second, submit(connection, new_key));
    UsageTable usage(connection);
    DIVVY_RETURN_IF_ERROR(usage.add(used(now - kKeepUsage - std::chrono::hours(2), 1)));
    DIVVY_RETURN_IF_ERROR(usage.add(used(now - std::chrono::hours(24 * 365), 2)));
    EventTable events(connection);
    for (std::uint64_t i = 0; i < kKeepEvents + 3; ++i)
      DIVVY_RETURN_IF_ERROR(events.add(EventRow()));
    return {};
  });
  commit([&](Connection& connection) { return forget_old(connection, now); });
  EXPECT_EQ(read([](Connection& connection) { return EventTable(connection).first(); }), 4U);
  const auto rows = read([](Connection& connection) { return UsageTable(connection).rows({}); });
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].job, model::JobId(2));
  EventRow late;
  late.at = now;
  commit([&](Connection& connection) -> Status {
    DIVVY_RETURN_IF_ERROR(EventTable(connection).add(late));
    return {};
  });
  commit([&](Connection& connection) {
    return forget_old(connection, now, now - std::chrono::hours(1));
  });
  EXPECT_EQ(read([](Connection& connection) { return EventTable(connection).first(); }),
            kKeepEvents + 4)
      << "the others were too old";
  commit([&](Connection& connection) -> Status {
    DIVVY_TRY(again, submit(connection, new_key));
    EXPECT_TRUE(again.repeated);
    DIVVY_TRY(anew, submit(connection, old_key));
    EXPECT_FALSE(anew.repeated);
    return {};
  });
}

}  // namespace
}  // namespace divvy::store
