#include "health/event_log.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace divvy::health {
namespace {

Event event(std::string reason) {
  Event one;
  one.reason = std::move(reason);
  return one;
}

bool readable(const UniqueFd& fd) {
  pollfd wait{fd.get(), POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

TEST(EventLog, NumbersEventsAndKeepsTheLastThousand) {
  ManualClock clock;
  EventLog log(clock);
  EXPECT_EQ(log.last(), 0U);
  for (int i = 1; i <= 1200; ++i) log.add(event(std::to_string(i)));
  const auto all = log.since(0);
  ASSERT_EQ(all.size(), EventLog::kKept);
  EXPECT_EQ(all.front().number, 201U);
  EXPECT_EQ(all.front().reason, "201");
  EXPECT_EQ(log.last(), 1200U);
  EXPECT_EQ(log.since(1199).size(), 1U);
  EXPECT_TRUE(log.since(1200).empty());
  EXPECT_TRUE(log.since(5000).empty());
}

TEST(EventLog, TellsWhoWaitsThatSomethingCame) {
  ManualClock clock;
  EventLog log(clock);
  const auto first = log.when_after(0);
  EXPECT_FALSE(readable(*first));
  log.add(event("one"));
  EXPECT_TRUE(readable(*first));
  EXPECT_TRUE(readable(*log.when_after(0)));
  EXPECT_FALSE(readable(*log.when_after(1)));
}

}  // namespace
}  // namespace divvy::health
