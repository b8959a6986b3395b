#include "store/audit_table.h"

#include <gtest/gtest.h>

#include "store/testing.h"
#include "store/upkeep.h"

namespace divvy::store {
namespace {

AuditRow entry(const std::string& user, WallTime at) {
  AuditRow row;
  row.at = at;
  row.user = user;
  row.caller = "uid 1000, pid 7";
  row.action = "cancelJob";
  row.object = "/v1/jobs/17";
  return row;
}

class AuditTableTest : public TableTest {
 protected:
  AuditRow add(AuditRow row) const {
    commit([&](Connection& connection) -> Status {
      DIVVY_TRY(number, AuditTable(connection).add(row));
      row.number = number;
      return {};
    });
    return row;
  }
  [[nodiscard]] std::vector<AuditRow> all() const {
    return read([](Connection& connection) { return AuditTable(connection).list({}); });
  }
};

TEST_F(AuditTableTest, AnEntryGetsItsOutcomeOnceAndIsNeverChanged) {
  AuditRow row = add(entry("ada", at_second(5)));
  EXPECT_EQ(all().at(0).status, std::nullopt);
  row.status = 200;
  commit([&](Connection& connection) { return AuditTable(connection).finish(row); });
  EXPECT_EQ(all(), std::vector<AuditRow>{row});
  const Status changed = database_->commit(
      [](Connection& connection) { return connection.execute("UPDATE audit SET user = 'eve'"); });
  EXPECT_FALSE(changed);
  EXPECT_EQ(all(), std::vector<AuditRow>{row});
}

TEST_F(AuditTableTest, AnOutcomeWhoseEntryIsGoneIsAddedAndChangesNoOther) {
  AuditRow gone = entry("eve", at_second(5));
  gone.number = 1;
  gone.status = 200;
  const AuditRow other = add(entry("ada", at_second(6)));
  commit([&](Connection& connection) { return AuditTable(connection).finish(gone); });
  ASSERT_EQ(all().size(), 2U);
  EXPECT_EQ(all().at(0).user, "eve");
  EXPECT_EQ(all().at(1), other);
}

TEST_F(AuditTableTest, OnlyAgeAndOnesOwnMuchMoreRemoveAnEntry) {
  const WallTime now = at_second(1'800'000'000);
  add(entry("old", now - kKeepAudit - std::chrono::seconds(1)));
  add(entry("ada", now - std::chrono::hours(24)));
  commit([&](Connection& connection) -> Status {
    AuditTable table(connection);
    for (std::uint64_t i = 0; i < kKeepAuditOfOne + 3; ++i) {
      DIVVY_TRY(number, table.add(entry("bob", now)));
      static_cast<void>(number);
    }
    return {};
  });
  commit([&](Connection& connection) { return forget_old(connection, now); });
  const auto count = [&](const std::string& user) {
    return read([&](Connection& connection) {
      return connection.number("SELECT count(*) FROM audit WHERE user = '" + user + "'");
    });
  };
  EXPECT_EQ(count("old"), 0);
  EXPECT_EQ(count("ada"), 1) << "bob cannot push it out";
  EXPECT_EQ(count("bob"), static_cast<std::int64_t>(kKeepAuditOfOne));
}

}  // namespace
}  // namespace divvy::store
