#include "notify/notifier.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <random>

#include "base/temporary_folder.h"
#include "store/database.h"

namespace divvy::notify {
namespace {

using namespace std::chrono_literals;

constexpr const char* kUrl = "https://ada:word@hooks.example/divvy?key=hidden";

class NotifierTest : public ::testing::Test {
 protected:
  NotifierTest() { open(); }
  ~NotifierTest() override { notifier_.reset(); }

  void open() {
    database_ = store::Database::open(folder_ / "divvy.db").value();
    notifier_.emplace(*database_, clock_, rules_, [this](const auto& url, const auto& message) {
      EXPECT_EQ(url.query, "key=hidden");
      sent_.push_back(message);
      return answer_(message);
    });
  }
  // As kill -9 leaves it: what was sent may not have been written down.
  void kill() {
    notifier_.reset();
    database_.reset();
  }
  void add(std::uint64_t job, const std::string& owner = "ada", const char* url = kUrl) {
    const WallTime now = clock_.wall_now();
    const Status kept = database_->commit([&](store::Connection& connection) {
      return store::NotificationTable(connection)
          .add({.job = model::JobId(job),
                .owner = owner,
                .ended = now,
                .url = url,
                .body = std::to_string(job),
                .due = now});
    });
    ASSERT_TRUE(kept) << kept.error().message;
  }
  [[nodiscard]] std::uint64_t left() {
    std::uint64_t messages = 0;
    const auto waiting = *database_->read([](store::Connection& connection) {
      return store::NotificationTable(connection).waiting();
    });
    for (const auto& one : waiting) messages += one.messages;
    return messages;
  }
  // Until nothing is due any more.
  std::optional<Duration> settle() {
    for (;;) {
      const auto patience = notifier_->step();
      if (!patience || *patience > 0s) return patience;
    }
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  Notifier::Rules rules_;
  std::function<Result<int>(const Message&)> answer_ = [](const Message&) { return 204; };
  std::vector<Message> sent_;
  std::unique_ptr<store::Database> database_;
  std::optional<Notifier> notifier_;
};

TEST_F(NotifierTest, AMessageThatIsTakenIsSentOnce) {
  EXPECT_EQ(notifier_->step(), std::nullopt);
  add(7);
  EXPECT_EQ(settle(), std::nullopt);
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].body, "7");
  EXPECT_EQ(left(), 0U);
}

TEST_F(NotifierTest, OneThatIsNotTakenIsRepeatedWithItsIdAndLongerPausesAndThenGivenUp) {
  std::deque<Result<int>> answers{500, 302, 404, err(ErrorCode::kTimeout, "no answer")};
  answer_ = [&](const Message&) -> Result<int> {
    if (answers.empty()) return 503;
    Result<int> answer = answers.front();
    answers.pop_front();
    return answer;
  };
  add(7);
  Duration last{0};
  Duration all{0};
  while (const auto patience = settle()) {
    EXPECT_GE(*patience, last);
    last = *patience;
    all += last;
    clock_.advance(*patience);
  }
  EXPECT_EQ(sent_.size(), Notifier::kMostTries);
  for (const Message& message : sent_) EXPECT_EQ(message.id, sent_[0].id);
  EXPECT_EQ(last, 10min);
  EXPECT_GT(all, 30min);
  EXPECT_LT(all, 2h);
  EXPECT_EQ(left(), 0U);
}

TEST_F(NotifierTest, WhoIsGoneIsAskedOnce) {
  answer_ = [](const Message&) { return 410; };
  add(7);
  EXPECT_EQ(settle(), std::nullopt);
  EXPECT_EQ(sent_.size(), 1U);
  EXPECT_EQ(left(), 0U);
}

TEST_F(NotifierTest, AnOldOneIsTriedOnceWhateverTheTime) {
  add(7);
  clock_.advance(48h);
  answer_ = [](const Message&) { return 500; };
  EXPECT_EQ(settle(), std::nullopt);
  EXPECT_EQ(sent_.size(), 1U) << "the daemon was away for two days";
  EXPECT_EQ(left(), 0U);
}

TEST_F(NotifierTest, UsersTakeTurns) {
  for (std::uint64_t job = 1; job <= 4; ++job) add(job, "ada");
  add(5, "bob");
  answer_ = [](const Message&) { return 204; };
  settle();
  ASSERT_EQ(sent_.size(), 5U);
  EXPECT_EQ(sent_[1].body, "5") << "bob does not wait for ada";
}

TEST_F(NotifierTest, AUserHasABoundedRate) {
  for (std::uint64_t job = 1; job <= 25; ++job) add(job);
  const auto patience = settle();
  ASSERT_TRUE(patience);
  EXPECT_EQ(sent_.size(), Notifier::kMostPerSecond);
  add(30, "bob");
  settle();
  EXPECT_EQ(sent_.back().body, "30") << "the others have theirs";
  for (int i = 0; i < 15; ++i) {
    clock_.advance(*patience);
    settle();
  }
  EXPECT_EQ(sent_.size(), 26U);
}

TEST_F(NotifierTest, RulesHoldAtSubmitAndWhenItIsSent) {
  const auto refusal = [&](const char* url) {
    const Status checked = notifier_->check(model::Notify{.url = url});
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(refusal(kUrl), "");
  add(1);
  add(2, "ada", "https://a.Inside.example/?key=hidden");
  notifier_->set_rules({.enabled = true, .allowed_hosts = {"10.0.0.7", "*.inside.example"}});
  EXPECT_TRUE(refusal(kUrl).starts_with("notify.url: no messages are sent to hooks.example"));
  EXPECT_EQ(refusal(kUrl).find("hidden"), std::string::npos);
  EXPECT_EQ(refusal("http://10.0.0.7/"), "");
  EXPECT_EQ(refusal("https://b.inside.example"), "");
  EXPECT_NE(refusal("https://inside.example"), "");
  EXPECT_NE(refusal("https://xinside.example"), "");
  settle();
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].body, "2");
  EXPECT_EQ(left(), 0U) << "what is not allowed any more is dropped";
  notifier_->set_rules({.enabled = false, .allowed_hosts = {}});
  EXPECT_TRUE(refusal("http://10.0.0.7/").starts_with("notify: this machine sends no messages"));
}

TEST_F(NotifierTest, OfOneUserTheNewestWait) {
  const Status kept = database_->commit([&](store::Connection& connection) -> Status {
    store::NotificationTable table(connection);
    for (std::uint64_t job = 1; job <= Notifier::kMostOfOneOwner + 3; ++job) {
      DIVVY_RETURN_IF_ERROR(table.add({.job = model::JobId(job),
                                       .owner = "ada",
                                       .ended = clock_.wall_now(),
                                       .url = kUrl,
                                       .body = std::to_string(job),
                                       .due = clock_.wall_now()}));
    }
    return {};
  });
  ASSERT_TRUE(kept);
  EXPECT_EQ(notifier_->step(), Duration(0));
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].body, "4");
  EXPECT_EQ(left(), Notifier::kMostOfOneOwner - 1);
}

// Whatever receivers answer and whenever the daemon is killed: every message arrives, repeats have
// the id of the first, and no two messages have one.
TEST_F(NotifierTest, NothingIsLostOverKillsAndFailures) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937 random(seed);
    std::map<std::string, std::string> taken;  // id to body
    bool died = false;
    answer_ = [&](const Message& message) -> Result<int> {
      const auto dice = random() % 10;
      if (dice < 4) return dice < 2 ? Result<int>(500) : err(ErrorCode::kUnavailable, "nobody");
      EXPECT_EQ(taken.try_emplace(message.id, message.body).first->second, message.body);
      // Killed between the answer and the disk: as if it had not come.
      died = dice < 6;
      return died ? Result<int>(500) : 200;
    };
    for (std::uint64_t i = 1; i <= 8; ++i) add(seed * 100 + i, random() % 2 == 0 ? "ada" : "bob");
    while (left() > 0) {
      const auto patience = notifier_->step();
      if (std::exchange(died, false)) {
        kill();
        open();
      } else if (patience) {
        clock_.advance(*patience);
      }
    }
    EXPECT_EQ(taken.size(), 8U) << "seed " << seed;
  }
}

// A receiver that does not answer keeps one sender; the others go on.
TEST_F(NotifierTest, ASlowReceiverKeepsNobodyElseWaiting) {
  std::mutex mutex;
  std::condition_variable changed;
  bool released = false;
  std::set<std::string> arrived;
  SystemClock clock;
  Notifier sender(*database_, clock, {}, [&](const auto& /*url*/, const Message& message) {
    std::unique_lock lock(mutex);
    arrived.insert(message.body);
    changed.notify_all();
    if (message.body == "1") changed.wait(lock, [&] { return released; });
    return Result<int>(200);
  });
  add(1, "ada");
  add(2, "ada");
  sender.begin();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return arrived.contains("1"); });
  }
  for (std::uint64_t job = 3; job <= 8; ++job) add(job, "user-" + std::to_string(job % 3));
  sender.wake();
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return arrived.size() == 7; });
  EXPECT_FALSE(arrived.contains("2")) << "one at a time of each user";
  released = true;
  changed.notify_all();
  changed.wait(lock, [&] { return arrived.size() == 8; });
}

}  // namespace
}  // namespace divvy::notify
