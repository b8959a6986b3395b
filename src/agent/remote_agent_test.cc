// The two ends of a socket, with an agent of the test behind it.
#include "agent/remote_agent.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "agent/agent_server.h"
#include "agent/waiting.h"
#include "base/temporary_folder.h"

namespace divvy::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 60s;

// Answers what it was asked, from a thread of its own, or keeps the reply.
class EchoAgent final : public Agent {
 public:
  ~EchoAgent() override {
    for (std::thread& thread : threads_) thread.join();
  }
  [[nodiscard]] const std::string& node() const override { return node_; }
  void send(Order order, Reply reply) override {
    const std::lock_guard lock(mutex_);
    if (std::holds_alternative<ReapOrder>(order) || std::holds_alternative<ReleaseOrder>(order)) {
      kept_.push_back(std::move(reply));
      asked_.set_value();
      return;
    }
    threads_.emplace_back([order = std::move(order), reply = std::move(reply)] {
      const auto* const view = std::get_if<ViewOrder>(&order);
      reply(view != nullptr ? Result<Answer>(Document{view->name})
                            : Result<Answer>(err(ErrorCode::kNotFound, "nothing here")));
    });
  }
  void listen(Listener listener) override {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }
  [[nodiscard]] Result<UniqueFd> open_stream(const StreamOrder& order) override {
    if (order.port == 0) return err(ErrorCode::kUnavailable, "nobody listens there");
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    // Says everything twice.
    threads_.emplace_back([end = std::make_shared<UniqueFd>(ends[1])] {
      char letter = 0;
      while (::read(end->get(), &letter, 1) == 1) {
        const char twice[] = {letter, letter};
        if (::write(end->get(), twice, 2) != 2) return;
      }
    });
    return UniqueFd(ends[0]);
  }
  void tell(News news) {
    const std::lock_guard lock(mutex_);
    if (listener_) listener_(std::move(news));
  }
  std::future<void> asked() { return asked_.get_future(); }
  void forget() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }
  void answer_kept(const Answer& answer) {
    for (const Reply& reply : take_kept()) reply(answer);
  }
  void answer_kept_twice(const Answer& answer) {
    for (const Reply& reply : take_kept()) {
      reply(answer);
      reply(answer);
    }
  }

 private:
  std::vector<Reply> take_kept() {
    const std::lock_guard lock(mutex_);
    return std::exchange(kept_, {});
  }

  std::string node_ = "node-a";
  std::mutex mutex_;
  Listener listener_;
  std::vector<Reply> kept_;
  std::promise<void> asked_;
  std::vector<std::thread> threads_;
};

class RemoteAgentTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path socket() const { return folder_ / "agent.sock"; }
  void serve() { server_ = *AgentServer::create(agent_, socket(), "test"); }

  TemporaryFolder folder_;
  EchoAgent agent_;
  std::unique_ptr<AgentServer> server_;
};

TEST_F(RemoteAgentTest, OrdersAndAnswersCrossTheSocket) {
  serve();
  const auto remote = RemoteAgent::create(socket(), 5s).value();
  EXPECT_EQ(remote->node(), "node-a");
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(ask_and_wait(*remote, ViewOrder{View::kNode, large}, kLong)->json, large);
  const auto refused = ask_and_wait(*remote, FindOrder{}, kLong);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), (Error{ErrorCode::kNotFound, "nothing here"}));
}

TEST_F(RemoteAgentTest, NewsCrossItToo) {
  serve();
  const auto remote = RemoteAgent::create(socket(), 5s).value();
  std::promise<News> heard;
  remote->listen([&](const News& news) { heard.set_value(news); });
  // It is connected when an order has been answered.
  ASSERT_TRUE(ask_and_wait(*remote, ViewOrder{}, kLong));
  agent_.tell(HolderGone{{model::JobId(3), 1, 0}});
  EXPECT_EQ(heard.get_future().get(), News(HolderGone{{model::JobId(3), 1, 0}}));
  remote->listen({});
}

TEST_F(RemoteAgentTest, AnAbsentAgentIsUnavailable) {
  EXPECT_EQ(RemoteAgent::create(socket(), 0ms).error().code, ErrorCode::kUnavailable);
}

TEST_F(RemoteAgentTest, AnOrderWhoseAnswerIsLostIsUnavailableAndTheNextOneWorks) {
  serve();
  const auto remote = RemoteAgent::create(socket(), 5s).value();
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> reachable;
  remote->listen([&](const News& news) {
    const std::lock_guard lock(mutex);
    if (const auto* now = std::get_if<Reachable>(&news)) reachable.push_back(now->yes);
    changed.notify_all();
  });
  auto asked = agent_.asked();
  std::promise<ErrorCode> lost;
  ask(*remote, ReapOrder{}, [&](const Result<Done>& reply) { lost.set_value(reply.error().code); });
  asked.wait();
  server_.reset();  // as if its process was killed
  EXPECT_EQ(lost.get_future().get(), ErrorCode::kUnavailable);
  EXPECT_EQ(ask_and_wait(*remote, ViewOrder{}, kLong).error().code, ErrorCode::kUnavailable);
  agent_.forget();
  serve();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reachable == std::vector<bool>{false, true}; });
  }
  EXPECT_TRUE(ask_and_wait(*remote, ViewOrder{}, kLong));
  remote->listen({});
}

// A release that is carried out late would take away what the next control side has granted.
TEST_F(RemoteAgentTest, ANewControllerIsServedAfterThePreviousReleasesFinish) {
  serve();
  auto last = RemoteAgent::create(socket(), 5s).value();
  auto asked = agent_.asked();
  ask(*last, ReleaseOrder{}, [](const Result<Released>& /*lost*/) {});
  asked.wait();
  last.reset();  // as if its process was killed
  const auto next = RemoteAgent::create(socket(), 5s).value();
  std::promise<std::string> seen;
  auto answer = seen.get_future();
  ask(*next, ViewOrder{View::kNode, "next"},
      [&](const Result<Document>& view) { seen.set_value(view->json); });
  EXPECT_EQ(answer.wait_for(50ms), std::future_status::timeout);
  agent_.answer_kept(Answer(Released{}));
  EXPECT_EQ(answer.get(), "next");
}

TEST_F(RemoteAgentTest, AnAnswerThatComesTwiceIsTakenOnce) {
  serve();
  const auto remote = RemoteAgent::create(socket(), 5s).value();
  std::future<void> asked = agent_.asked();
  std::atomic<int> taken{0};
  std::promise<void> first;
  remote->send(ReapOrder{}, [&](const Result<Answer>& answer) {
    EXPECT_TRUE(answer.has_value());
    if (++taken == 1) first.set_value();
  });
  asked.wait();
  agent_.answer_kept_twice(Done{});
  first.get_future().wait();
  // What was sent before this answer has come before it.
  (void)ask_and_wait(*remote, ViewOrder{View::kNode, "x"}, kLong);
  EXPECT_EQ(taken, 1);
}

TEST_F(RemoteAgentTest, AStreamIsAConnectionOfItsOwn) {
  serve();
  const auto remote = RemoteAgent::create(socket(), 5s).value();
  StreamOrder order;
  EXPECT_EQ(remote->open_stream(order).error(),
            (Error{ErrorCode::kUnavailable, "nobody listens there"}));
  order.port = 80;
  const auto stream = remote->open_stream(order);
  ASSERT_TRUE(stream) << stream.error().message;
  ASSERT_EQ(::write(stream->get(), "ab", 2), 2);
  ::shutdown(stream->get(), SHUT_WR);
  std::string heard;
  char piece[16];
  for (ssize_t got = 0; (got = ::read(stream->get(), piece, sizeof piece)) > 0;) {
    heard.append(piece, static_cast<std::size_t>(got));
  }
  EXPECT_EQ(heard, "aabb");
}

}  // namespace
}  // namespace divvy::agent
