#include "store/usage_table.h"

#include <gtest/gtest.h>

#include "store/testing.h"

namespace divvy::store {
namespace {

constexpr int kHour = 3600;

class UsageTableTest : public TableTest {
 protected:
  void add(int second, std::uint64_t job, const std::string& owner, const std::string& queue,
           std::uint64_t held) const {
    commit([&](Connection& connection) {
      return UsageTable(connection)
          .add({.from = at_second(second),
                .job = model::JobId(job),
                .attempt = 1,
                .owner = owner,
                .queue = queue,
                .held = held,
                .used = held / 2,
                .memory = held * 10});
    });
  }
  [[nodiscard]] std::vector<UsageSum> report(UsageBy by, const UsageFilter& filter = {}) const {
    return read([&](Connection& connection) { return UsageTable(connection).report(by, filter); });
  }
};

TEST_F(UsageTableTest, SumsByUserQueueJobAndHour) {
  add(10, 1, "ada", "research", 100);
  add(70, 1, "ada", "research", 200);
  add(kHour + 10, 1, "ada", "research", 400);
  add(20, 2, "bob", "research/vision", 1000);
  add(20, 11, "bob", "default", 10);
  EXPECT_EQ(report(UsageBy::kUser),
            (std::vector<UsageSum>{{"ada", 700, 350, 7000, 1}, {"bob", 1010, 505, 10100, 2}}));
  EXPECT_EQ(report(UsageBy::kQueue),
            (std::vector<UsageSum>{{"default", 10, 5, 100, 1},
                                   {"research", 700, 350, 7000, 1},
                                   {"research/vision", 1000, 500, 10000, 1}}));
  EXPECT_EQ(report(UsageBy::kJob),
            (std::vector<UsageSum>{
                {"1", 700, 350, 7000, 1}, {"2", 1000, 500, 10000, 1}, {"11", 10, 5, 100, 1}}));
  EXPECT_EQ(report(UsageBy::kHour),
            (std::vector<UsageSum>{{"0", 1310, 655, 13100, 3}, {"3600", 400, 200, 4000, 1}}));
}

TEST_F(UsageTableTest, CountsOnlyWhatTheFilterAsksFor) {
  add(10, 1, "ada", "research", 1);
  add(kHour + 10, 1, "ada", "research", 10);
  add(2 * kHour + 10, 2, "bob", "research/vision", 100);
  add(2 * kHour + 10, 3, "bob", "research-2", 1000);
  const auto held = [this](const UsageFilter& filter) {
    std::uint64_t sum = 0;
    for (const UsageSum& one : report(UsageBy::kJob, filter)) sum += one.held;
    return sum;
  };
  UsageFilter filter;
  EXPECT_EQ(held(filter), 1111U);
  filter.since = at_second(kHour + 1800);
  EXPECT_EQ(held(filter), 1110U) << "the hour that it lies in counts";
  filter.before = at_second(2 * kHour);
  EXPECT_EQ(held(filter), 10U);
  filter = {};
  filter.queue = "research";
  EXPECT_EQ(held(filter), 111U);
  filter.owner = "bob";
  EXPECT_EQ(held(filter), 100U);
  filter = {};
  filter.job = model::JobId(3);
  EXPECT_EQ(held(filter), 1000U);
}

TEST_F(UsageTableTest, RowsComeBackOldestFirstUntilTheyAreForgotten) {
  add(kHour + 10, 1, "ada", "research", 10);
  add(10, 2, "ada", "research", 1);
  auto rows = read([](Connection& connection) { return UsageTable(connection).rows({}); });
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].job, model::JobId(2));
  EXPECT_EQ(rows[1].from, at_second(kHour));
  commit([](Connection& connection) {
    return UsageTable(connection).forget_before(at_second(kHour));
  });
  rows = read([](Connection& connection) { return UsageTable(connection).rows({}); });
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].job, model::JobId(1));
}

}  // namespace
}  // namespace divvy::store
