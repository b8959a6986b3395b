#include "control/task.h"

#include <gtest/gtest.h>

#include <deque>

namespace divvy::control {
namespace {

// Answers when the test says so, in any order.
class SlowAgent final : public agent::Agent {
 public:
  [[nodiscard]] const std::string& node() const override { return node_; }
  void send(agent::Order order, Reply reply) override {
    keys.push_back(std::get<agent::FindOrder>(order).key);
    replies_.push_back(std::move(reply));
  }
  void listen(Listener /*listener*/) override {}
  [[nodiscard]] Result<UniqueFd> open_stream(const agent::StreamOrder& /*order*/) override {
    return err(ErrorCode::kUnsupported, "no streams here");
  }
  void answer(std::size_t which, Result<agent::Answer> answer = agent::Answer(agent::Found{})) {
    replies_[which](std::move(answer));
  }
  std::vector<model::MemberKey> keys;

 private:
  std::string node_ = "a";
  std::deque<Reply> replies_;
};

class Tasks : public ::testing::Test {
 protected:
  Task look(std::uint64_t job, int times) {
    for (int i = 0; i < times; ++i) {
      const auto found = co_await AskedOne<agent::FindOrder>(
          box_, &agent_, agent::FindOrder{{model::JobId(job), 1, static_cast<std::uint32_t>(i)}});
      said_.push_back(std::to_string(job) + (found ? " found" : " failed"));
    }
  }
  Task look_at_all(std::vector<agent::Agent*> agents) {
    std::vector<Asked<agent::FindOrder>::To> orders;
    for (agent::Agent* const agent : agents) orders.push_back({agent, {}});
    const auto found = co_await Asked<agent::FindOrder>(box_, std::move(orders));
    for (const auto& one : found) said_.push_back(one ? "found" : one.error().message);
  }
  void add(std::uint64_t job, Task task) {
    const std::lock_guard lock(mutex_);
    lines_->add(model::JobId(job), std::move(task));
  }

  std::mutex mutex_;
  int woken_ = 0;
  std::shared_ptr<ReplyBox> box_ = std::make_shared<ReplyBox>(mutex_, [this] { ++woken_; });
  SlowAgent agent_;
  std::vector<std::string> said_;
  std::unique_ptr<JobLines> lines_ = std::make_unique<JobLines>();
};

TEST_F(Tasks, OfOneJobAreSerializedAndOfSeveralJobsConcurrent) {
  add(1, look(1, 2));
  add(1, look(1, 1));
  add(2, look(2, 1));
  ASSERT_EQ(agent_.keys.size(), 2U) << "the second of job 1 waits for the first";
  agent_.answer(1);
  agent_.answer(0, err(ErrorCode::kIo, "no"));
  ASSERT_EQ(agent_.keys.size(), 3U);
  agent_.answer(2);
  ASSERT_EQ(agent_.keys.size(), 4U) << "now the second";
  agent_.answer(3);
  EXPECT_EQ(said_, (std::vector<std::string>{"2 found", "1 failed", "1 found", "1 found"}));
  EXPECT_EQ(lines_->size(), 0U);
  EXPECT_EQ(woken_, 4);
}

TEST_F(Tasks, ResumeAfterTheLastOfSeveralReplies) {
  add(1, look_at_all({&agent_, nullptr, &agent_}));
  agent_.answer(1, err(ErrorCode::kIo, "broken"));
  EXPECT_TRUE(said_.empty());
  agent_.answer(0);
  EXPECT_EQ(said_, (std::vector<std::string>{"found", "there is no such machine", "broken"}));
}

TEST_F(Tasks, WithoutRequestsDoNotSuspend) {
  add(1, look_at_all({}));
  add(1, look_at_all({nullptr}));
  EXPECT_EQ(lines_->size(), 0U);
  EXPECT_EQ(said_, (std::vector<std::string>{"there is no such machine"}));
}

TEST_F(Tasks, AreDroppedWithTheirLineAndLateRepliesAreIgnored) {
  add(1, look(1, 1));
  box_->close();
  lines_.reset();
  agent_.answer(0);
  EXPECT_TRUE(said_.empty());
  EXPECT_EQ(woken_, 0);
}

}  // namespace
}  // namespace divvy::control
