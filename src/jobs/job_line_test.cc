#include "jobs/job_line.h"

#include <gtest/gtest.h>

#include "jobs/testing.h"

namespace divvy::jobs {
namespace {

using model::JobId;
using testing::at;
using testing::queue;

class LineTest : public ::testing::Test {
 protected:
  LineTest() {
    settings_.queues = {queue("a"), queue("b"), queue("b/c")};
    tree_ = QueueTree(settings_);
    shares_.advance(tree_, at(0));
  }

  JobId add(const std::string& path, const std::string& user, std::int32_t priority = 0,
            model::JobClass job_class = model::JobClass::kBatch) {
    model::JobSpec spec = testing::spec(1000);
    spec.priority = priority;
    spec.job_class = job_class;
    const std::uint64_t number = jobs_.size() + 1;
    jobs_.emplace_back(JobId(number), user, std::move(spec), at(static_cast<std::int64_t>(number)));
    line_.add(*tree_.find(path), tree_.user(user), jobs_.back());
    paths_.push_back(path);
    return JobId(number);
  }

  // Everybody in turn; whoever is returned starts if told so.
  std::vector<std::uint64_t> turns(bool start) {
    std::vector<std::uint64_t> ids;
    Turn turn(line_, tree_, shares_);
    while (const auto id = turn.next()) {
      ids.push_back(id->value());
      if (!start) continue;
      const model::Job& job = jobs_[id->value() - 1];
      const QueueId where = *tree_.find(paths_[id->value() - 1]);
      line_.remove(where, tree_.user(job.owner), job);
      tree_.take(where, tree_.user(job.owner), {1000, 0, 1});
      turn.started();
    }
    return ids;
  }

  Settings settings_;
  QueueTree tree_{settings_};
  FairShare shares_{settings_.half_life};
  JobLine line_;
  std::vector<model::Job> jobs_;
  std::vector<std::string> paths_;
};

using Ids = std::vector<std::uint64_t>;

TEST_F(LineTest, GoesByPriorityThenClassThenAge) {
  add("a", "ada");
  add("a", "ada", 5);
  add("a", "ada", 0, model::JobClass::kLatency);
  add("a", "ada", 5);
  EXPECT_EQ(turns(false), (Ids{2, 4, 3, 1}));
}

TEST_F(LineTest, UsersOfOneQueueTakeTurns) {
  for (int i = 0; i < 3; ++i) add("a", "ada");
  for (int i = 0; i < 3; ++i) add("a", "bob");
  EXPECT_EQ(turns(true), (Ids{1, 4, 2, 5, 3, 6}));
}

TEST_F(LineTest, WhoUsedLessGoesFirst) {
  add("a", "ada");
  add("a", "bob");
  shares_.add(tree_, *tree_.find("a"), tree_.user("ada"), 1, at(0));
  EXPECT_EQ(turns(false), (Ids{2, 1}));
}

TEST_F(LineTest, QueuesTakeTurnsWhateverThePriority) {
  for (int i = 0; i < 2; ++i) add("a", "ada", 100);
  for (int i = 0; i < 2; ++i) add("b", "bob");
  EXPECT_EQ(turns(true), (Ids{1, 3, 2, 4}));
}

TEST_F(LineTest, AQueuesOwnJobsTakeTurnsWithThoseBelow) {
  for (int i = 0; i < 2; ++i) add("b", "ada");
  for (int i = 0; i < 2; ++i) add("b/c", "bob");
  EXPECT_EQ(turns(true), (Ids{1, 3, 2, 4}));
}

TEST_F(LineTest, WeightGivesMoreTurns) {
  settings_.queues[1].weight = 2;
  tree_ = QueueTree(settings_);
  for (int i = 0; i < 3; ++i) add("a", "ada");
  for (int i = 0; i < 6; ++i) add("b", "bob");
  const Ids order = turns(true);
  const auto in_front =
      std::count_if(order.begin(), order.begin() + 6, [](std::uint64_t id) { return id > 3; });
  EXPECT_EQ(in_front, 4);
}

TEST_F(LineTest, ReturnsEachJobExactlyOnce) {
  for (int i = 0; i < 50; ++i) {
    add(i % 3 == 0 ? "a" : (i % 3 == 1 ? "b" : "b/c"), "user" + std::to_string(i % 7), i % 5);
  }
  Ids order = turns(true);
  std::ranges::sort(order);
  Ids all(50);
  for (std::uint64_t i = 0; i < 50; ++i) all[i] = i + 1;
  EXPECT_EQ(order, all);
  EXPECT_EQ(line_.size(), 0u);
}

}  // namespace
}  // namespace divvy::jobs
