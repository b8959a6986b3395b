#include "jobs/fair_share.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using testing::at;
using testing::queue;

struct Shares {
  explicit Shares(std::vector<QueueSettings> queues) : settings(with(std::move(queues))) {}
  static Settings with(std::vector<QueueSettings> queues) {
    Settings settings;
    settings.queues = std::move(queues);
    settings.half_life = Seconds(1000);
    return settings;
  }
  Settings settings;
  QueueTree tree{settings};
  FairShare shares{settings.half_life};
  UserId ada = tree.user("ada");
};

TEST(FairShare, HalfIsForgottenAfterTheHalfLife) {
  Shares s({queue("a")});
  const QueueId a = *s.tree.find("a");
  s.shares.advance(s.tree, at(0));
  s.shares.add(s.tree, a, s.ada, 600, at(0));
  s.shares.advance(s.tree, at(1000));
  EXPECT_NEAR(s.shares.used(a), 300, 1e-9);
  s.shares.advance(s.tree, at(3000));
  EXPECT_NEAR(s.shares.used(a, s.ada), 75, 1e-9);
}

TEST(FairShare, AccumulatesTheSameHoweverOftenItAdvances) {
  Shares once({queue("a")});
  Shares often({queue("a")});
  for (Shares* const s : {&once, &often}) {
    s->shares.advance(s->tree, at(0));
    s->tree.take(*s->tree.find("a"), s->ada, {1000, 0, 1});
  }
  once.shares.advance(once.tree, at(500));
  for (int i = 1; i <= 500; ++i) often.shares.advance(often.tree, at(i));
  const QueueId a = *once.tree.find("a");
  EXPECT_NEAR(once.shares.used(a), often.shares.used(a), 1e-6);
  EXPECT_LT(once.shares.used(a), 500'000) << "the first moments are partly forgotten";
  EXPECT_GT(once.shares.used(a), 400'000);
}

TEST(FairShare, TheScoreCountsThePastThePresentAndTheWeight) {
  Shares s({queue("a"), queue("b")});
  s.settings.queues[1].weight = 2;
  s.tree = QueueTree(s.settings);
  s.ada = s.tree.user("ada");
  const QueueId a = *s.tree.find("a");
  const QueueId b = *s.tree.find("b");
  s.shares.advance(s.tree, at(0));
  s.shares.add(s.tree, a, s.ada, 500, at(0));
  s.tree.take(b, s.ada, {1000, 0, 1});
  EXPECT_DOUBLE_EQ(s.shares.score(s.tree, a), 500);
  EXPECT_DOUBLE_EQ(s.shares.score(s.tree, b), 1000.0 * 1000 / 2);
}

TEST(FairShare, UsageCountsInTheQueuesAbove) {
  Shares s({queue("a/b")});
  s.shares.advance(s.tree, at(0));
  s.shares.add(s.tree, *s.tree.find("a/b"), s.ada, 10, at(0));
  EXPECT_DOUBLE_EQ(s.shares.used(*s.tree.find("a")), 10);
  EXPECT_DOUBLE_EQ(s.shares.used_here(*s.tree.find("a")), 0);
}

TEST(FairShare, RestoresUsageFromRows) {
  Shares s({queue("a")});
  s.shares.advance(s.tree, at(0));
  s.shares.add(s.tree, *s.tree.find("a"), s.ada, 600, at(0));
  s.shares.advance(s.tree, at(500));
  Shares again({queue("a")});
  again.shares.advance(again.tree, at(1000));
  for (const UsageRow& row : s.shares.rows(s.tree)) {
    again.shares.add(again.tree, *again.tree.find(row.queue), again.tree.user(row.user),
                     row.share_seconds, row.at);
  }
  EXPECT_NEAR(again.shares.used(*again.tree.find("a")), 300, 1e-9);
}

TEST(FairShare, AClockThatIsSetBackChangesNothing) {
  Shares s({queue("a")});
  s.shares.advance(s.tree, at(1000));
  s.shares.add(s.tree, *s.tree.find("a"), s.ada, 600, at(1000));
  s.shares.advance(s.tree, at(0));
  EXPECT_DOUBLE_EQ(s.shares.used(*s.tree.find("a")), 600);
}

}  // namespace
}  // namespace divvy::jobs
