#include "place/reserve.h"

#include <gtest/gtest.h>

#include "place/plans_testing.h"

namespace divvy::place {
namespace {

using namespace testing;

std::optional<Reservation> make(Fleet& fleet, const Outlook& outlook, const Request& request) {
  const std::string before = fleet.picture();
  auto result = reserve(*fleet.placer, outlook, request);
  EXPECT_EQ(fleet.picture(), before) << "a reservation changed the cluster";
  return result;
}

TEST(Reserve, StartsAtOnceWhereTheRequestFits) {
  Fleet fleet({node("a", 2)});
  const auto result = make(fleet, {.now = 7, .endings = {}, .reservations = {}}, gpus(2));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->start, 7);
}

TEST(Reserve, StartsWhenEnoughHasEnded) {
  Fleet fleet({node("a", 2), node("b", 2)});
  Outlook outlook;
  outlook.endings = {{fleet.take(0, 0b01), 30},
                     {fleet.take(0, 0b10), 50},
                     {fleet.take(1, 0b01), 20},
                     {fleet.take(1, 0b10), 40}};
  const auto two = make(fleet, outlook, gpus(2));
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->start, 40);
  EXPECT_EQ(two->spots[0].node, NodeId(1));
  EXPECT_EQ(make(fleet, outlook, gang(4, 1))->start, 50);
  EXPECT_EQ(make(fleet, outlook, gpus(1))->start, 20);
  EXPECT_EQ(make(fleet, outlook, gpus(3)), std::nullopt);
}

TEST(Reserve, ExpectsOverdueMembersToEndNext) {
  Fleet fleet({node("a", 1)});
  Outlook outlook;
  outlook.now = 100;
  outlook.endings = {{fleet.take(0, 1), 60}};
  EXPECT_EQ(make(fleet, outlook, gpus(1))->start, 101);
}

TEST(Reserve, WithoutExpectedEndsReservesWhereTheLeastIsMissing) {
  Fleet fleet({node("a", 4), node("b", 4)});
  fleet.take(0, 0b0111);
  const HoldingId small = fleet.take(1, 0b0001);
  Outlook outlook;
  const auto result = make(fleet, outlook, gpus(4));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->start, kNever);
  EXPECT_EQ(result->spots[0].node, NodeId(1));
  outlook.reservations = {*result};
  // The three free GPUs of b are held back; one on a is not.
  const Backfill one = may_backfill(*fleet.placer, outlook, gpus(1), 5);
  ASSERT_TRUE(one.allowed());
  EXPECT_EQ(one.spots[0].node, NodeId(0));
  const Backfill two = may_backfill(*fleet.placer, outlook, gpus(2), 5);
  EXPECT_FALSE(two.allowed());
  EXPECT_EQ(two.why_not, "train waits for these GPUs");
  EXPECT_FALSE(ready(fleet.cluster, *result));
  fleet.cluster.release(small);
  EXPECT_TRUE(ready(fleet.cluster, *result));
  fleet.cluster.cordon(NodeId(1), "fan broken");
  EXPECT_FALSE(ready(fleet.cluster, *result));
  EXPECT_FALSE(still_possible(fleet.cluster, *result));
}

TEST(Reserve, ASecondOneStaysBesideTheFirst) {
  Fleet fleet({node("a", 2), node("b", 2)});
  Outlook outlook;
  outlook.endings = {{fleet.take(0, 0b11), 10}, {fleet.take(1, 0b11), 20}};
  outlook.reservations.push_back(*make(fleet, outlook, gpus(2)));
  EXPECT_EQ(outlook.reservations[0].start, 10);
  const auto second = make(fleet, outlook, gpus(2));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->start, 20);
  EXPECT_EQ(second->spots[0].node, NodeId(1));
  outlook.reservations.push_back(*second);
  EXPECT_EQ(make(fleet, outlook, gpus(2)), std::nullopt);
}

TEST(Backfill, ShortWorkStartsBeforeTheReservation) {
  Fleet fleet({node("a", 4)});
  Outlook outlook;
  outlook.endings = {{fleet.take(0, 0b0011), 100}};
  outlook.reservations = {*make(fleet, outlook, gpus(4, 0, "large"))};
  EXPECT_EQ(outlook.reservations[0].start, 100);
  EXPECT_TRUE(may_backfill(*fleet.placer, outlook, gpus(2), 100).allowed());
  const Backfill longer = may_backfill(*fleet.placer, outlook, gpus(2), 101);
  EXPECT_FALSE(longer.allowed());
  EXPECT_EQ(longer.why_not, "it would delay large, which starts at 100");
  EXPECT_FALSE(may_backfill(*fleet.placer, outlook, gpus(1), std::nullopt).allowed());
  EXPECT_EQ(may_backfill(*fleet.placer, outlook, gpus(3), 1).why_not,
            "it does not fit as things are");
}

TEST(Backfill, KeepsOffAReservationThatMayStartAtAnyMoment) {
  Fleet fleet({node("a", 4)});
  Outlook outlook;
  outlook.endings = {{fleet.take(0, 0b0011), 100}};
  outlook.reservations = {*make(fleet, outlook, gpus(4, 0, "large"))};
  outlook.reservations[0].any_moment = true;
  EXPECT_EQ(may_backfill(*fleet.placer, outlook, gpus(2), 1).why_not,
            "it would delay large, which starts at 100");
}

TEST(Backfill, LongWorkStartsBesideTheReservation) {
  Fleet fleet({node("a", 4), node("b", 2)});
  Outlook outlook;
  outlook.endings = {{fleet.take(0, 0b0011), 100}};
  outlook.reservations = {*make(fleet, outlook, gpus(4, 0, "large"))};
  // The tightest place would be on a, which is reserved; b is not.
  const Backfill beside = may_backfill(*fleet.placer, outlook, gpus(2), std::nullopt);
  ASSERT_TRUE(beside.allowed());
  EXPECT_EQ(beside.spots[0].node, NodeId(1));
}

TEST(Backfill, IgnoresAReservationOnALostPlace) {
  Fleet fleet({node("a", 2), node("b", 2)});
  Outlook outlook;
  outlook.endings = {{fleet.take(0, 0b01), 100}};
  outlook.reservations = {{"large", 0, 100, {Spot{.node = NodeId(1), .whole = 0b11}}}};
  fleet.cluster.set_unusable(NodeId(1), 0, "gone");
  EXPECT_TRUE(may_backfill(*fleet.placer, outlook, gpus(1), std::nullopt).allowed());
}

// --- Against looking at every moment ---

TEST(Reserve, EarliestStartMatchesBruteForce) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Lots lots(seed);
    Fleet fleet({node("a", 4), node("b", 2), node("c", 8)});
    fill(fleet, lots, 14);
    Outlook outlook;
    outlook.now = 10;
    for (std::uint32_t i = 0; i < 3; ++i) {
      for (const HoldingId id : fleet.cluster.on(NodeId(i))) {
        outlook.endings.push_back({id, 11 + lots.below(30)});
      }
    }
    Request request = gang(1 + lots.below(3), 1 + lots.below(4));
    if (lots.below(2) == 0) request.gpus = {Closeness::kNvlink, true};
    if (lots.below(3) == 0) request.members_near = {Closeness::kNode, true};
    const auto result = make(fleet, outlook, request);
    Instant earliest = kNever;
    for (Instant time = 10; time <= 41 && earliest == kNever; ++time) {
      const Cluster::Mark mark = fleet.cluster.mark();
      for (const Ending& ending : outlook.endings) {
        if (ending.at <= time) fleet.cluster.release(ending.holding);
      }
      if (fleet.fits(request)) earliest = time;
      fleet.cluster.rollback(mark);
    }
    ASSERT_EQ(result.has_value(), earliest != kNever) << seed;
    if (!result) continue;
    EXPECT_EQ(result->start, earliest) << seed;
  }
}

// Whoever is let in, the reservation starts when it was promised.
TEST(Backfill, NeverDelaysAReservation) {
  int allowed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Lots lots(seed);
    Fleet fleet({node("a", 4), node("b", 4)});
    fill(fleet, lots, 6);
    Outlook outlook;
    for (std::uint32_t i = 0; i < 2; ++i) {
      for (const HoldingId id : fleet.cluster.on(NodeId(i))) {
        outlook.endings.push_back({id, 1 + lots.below(30)});
      }
    }
    const auto reservation = make(fleet, outlook, gang(1 + lots.below(2), 4));
    ASSERT_TRUE(reservation.has_value());
    if (reservation->start == 0) continue;
    outlook.reservations = {*reservation};
    for (int step = 0; step < 6; ++step) {
      const Request small = lots.below(2) == 0 ? gpus(1) : gpus(0, 100 + 100 * lots.below(8));
      const Instant duration = 1 + lots.below(40);
      const std::string before = fleet.picture();
      const Backfill backfill = may_backfill(*fleet.placer, outlook, small, duration);
      EXPECT_EQ(fleet.picture(), before);
      if (!backfill.allowed()) continue;
      ++allowed;
      for (const Spot& spot : backfill.spots) {
        outlook.endings.push_back({fleet.cluster.take(spot), duration});
      }
    }
    for (const Ending& ending : outlook.endings) {
      if (ending.at <= reservation->start) fleet.cluster.release(ending.holding);
    }
    EXPECT_TRUE(ready(fleet.cluster, *reservation)) << seed;
  }
  EXPECT_GT(allowed, 100);
}

}  // namespace
}  // namespace divvy::place
