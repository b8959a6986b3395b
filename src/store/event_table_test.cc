#include "store/event_table.h"

#include <gtest/gtest.h>

#include "store/testing.h"

namespace divvy::store {
namespace {

class EventTableTest : public TableTest {
 protected:
  void add(const EventRow& event) const {
    commit([&](Connection& connection) -> Status {
      DIVVY_RETURN_IF_ERROR(EventTable(connection).add(event));
      return {};
    });
  }
  [[nodiscard]] std::vector<std::uint64_t> numbers(const EventFilter& filter) const {
    std::vector<std::uint64_t> found;
    for (const EventRow& event :
         read([&](Connection& connection) { return EventTable(connection).list(filter); })) {
      found.push_back(event.number);
    }
    return found;
  }
  static EventRow event(std::uint64_t job, const std::string& user) {
    return {.number = 0,
            .at = at_second(7),
            .kind = "job",
            .job = model::JobId(job),
            .user = user,
            .object = "train",
            .state = "running",
            .reason = "placed on node-a"};
  }
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(EventTableTest, AnEventComesBackAsItWasWithItsNumber) {
  EventRow one = event(3, "ada");
  add(one);
  EventRow gpu{.number = 0,
               .at = at_second(8),
               .kind = "gpu",
               .job = {},
               .user = "",
               .object = "GPU-1",
               .state = "suspect",
               .reason = "xid 79"};
  add(gpu);
  one.number = 1;
  gpu.number = 2;
  EXPECT_EQ(read([](Connection& connection) { return EventTable(connection).list({}); }),
            (std::vector{one, gpu}));
}

TEST_F(EventTableTest, ResumesAfterTheLastSeenNumber) {
  for (int i = 0; i < 5; ++i) add(event(i % 2, i < 3 ? "ada" : "bob"));
  EventFilter filter;
  filter.after = 2;
  EXPECT_EQ(numbers(filter), (Numbers{3, 4, 5}));
  filter.limit = 1;
  EXPECT_EQ(numbers(filter), (Numbers{3}));
  filter = {};
  filter.job = model::JobId(1);
  EXPECT_EQ(numbers(filter), (Numbers{2, 4}));
  filter.user = "bob";
  EXPECT_EQ(numbers(filter), (Numbers{4}));
}

TEST_F(EventTableTest, NumbersAreMonotonicAndShowWhatWasPruned) {
  const auto look = [this](Result<std::uint64_t> (EventTable::*which)()) {
    return read([&](Connection& connection) {
      EventTable table(connection);
      return (table.*which)();
    });
  };
  EXPECT_EQ(look(&EventTable::last), 0U);
  EXPECT_EQ(look(&EventTable::first), 0U);
  for (int i = 0; i < 5; ++i) add(event(1, "ada"));
  commit([](Connection& connection) { return EventTable(connection).keep(2); });
  EXPECT_EQ(look(&EventTable::first), 4U);
  commit([](Connection& connection) { return EventTable(connection).keep(0); });
  EXPECT_EQ(look(&EventTable::last), 5U);
  add(event(1, "ada"));
  EXPECT_EQ(look(&EventTable::last), 6U);
}

TEST_F(EventTableTest, MachineEventsShareTheStreamAndCanBeFilteredOut) {
  add(event(1, "ada"));
  EventRow machine;
  machine.at = at_second(8);
  machine.kind = "xid";
  machine.object = "GPU-1";
  machine.state = "suspect";
  machine.reason = "XID 79";
  machine.node = "node-a";
  machine.gpu = 3;
  machine.tenant = "train";
  add(machine);
  using enum EventFilter::About;
  EXPECT_EQ(numbers({}), (Numbers{1}));
  EXPECT_EQ(numbers({.after = 0, .about = kMachines}), (Numbers{2}));
  EXPECT_EQ(numbers({.after = 0, .about = kAll}), (Numbers{1, 2}));
  const auto found = read([](Connection& connection) {
    return EventTable(connection).list({.after = 1, .about = kAll});
  });
  machine.number = 2;
  EXPECT_EQ(found.front(), machine);
}

}  // namespace
}  // namespace divvy::store
