#include "store/notification_table.h"

#include <gtest/gtest.h>

#include "store/testing.h"

namespace divvy::store {
namespace {

NotificationRow message(std::uint64_t job, const std::string& owner = "ada") {
  return {.job = model::JobId(job),
          .owner = owner,
          .ended = at_second(static_cast<std::int64_t>(job)),
          .url = "https://hooks.example/divvy",
          .body = "{}",
          .due = at_second(static_cast<std::int64_t>(job))};
}

class NotificationTableTest : public TableTest {
 protected:
  void add(const NotificationRow& row) const {
    commit([&](Connection& connection) { return NotificationTable(connection).add(row); });
  }
  [[nodiscard]] std::optional<NotificationRow> next(const std::string& owner, int second) const {
    return read([&](Connection& connection) {
      return NotificationTable(connection).next(owner, at_second(second));
    });
  }
  [[nodiscard]] std::vector<NotificationTable::Waiting> waiting() const {
    return read([](Connection& connection) { return NotificationTable(connection).waiting(); });
  }
};

TEST_F(NotificationTableTest, TheOneThatIsDueFirstComesFirst) {
  add(message(7));
  add(message(5));
  add(message(6, "bob"));
  EXPECT_EQ(next("ada", 4), std::nullopt);
  EXPECT_EQ(next("ada", 9), message(5));
  commit([](Connection& connection) {
    return NotificationTable(connection).put_off(model::JobId(5), 1, at_second(20));
  });
  EXPECT_EQ(next("ada", 9), message(7));
  commit(
      [](Connection& connection) { return NotificationTable(connection).remove(model::JobId(7)); });
  EXPECT_EQ(next("ada", 9), std::nullopt);
  EXPECT_EQ(next("ada", 20)->tries, 1U);
  EXPECT_EQ(waiting(), (std::vector<NotificationTable::Waiting>{{"ada", at_second(20), 1},
                                                                {"bob", at_second(6), 1}}));
}

TEST_F(NotificationTableTest, ThereIsOneMessageForAJob) {
  add(message(5));
  NotificationRow again = message(5);
  again.body = "another";
  add(again);
  EXPECT_EQ(next("ada", 9), message(5));
}

TEST_F(NotificationTableTest, TheNewestOfAnOwnerAreKept) {
  for (std::uint64_t job = 1; job <= 5; ++job) add(message(job));
  add(message(6, "bob"));
  commit([](Connection& connection) -> Status {
    DIVVY_TRY(gone, NotificationTable(connection).keep("ada", 2));
    EXPECT_EQ(gone, 3U);
    return {};
  });
  EXPECT_EQ(next("ada", 9), message(4));
  EXPECT_EQ(waiting().front().messages, 2U);
  EXPECT_EQ(waiting().back().messages, 1U) << "bob's stays";
}

}  // namespace
}  // namespace divvy::store
