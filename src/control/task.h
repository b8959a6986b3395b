// Work of the control side that waits for machines in between, as coroutines. The code between two
// waits runs with the control side's lock held; nothing of it may block.
//
//   Task Dispatcher::end_it(model::MemberKey key, std::string node) {
//     const auto told = co_await ask(node, agent::StopOrder{key, grace});   // the lock is free
//     if (!told) ...                                                        // and held again
//   }
//
// A reply that never comes leaves its task waiting and holds up nothing but the later tasks of the
// same job (JobLines). Tasks that wait when the control side ends are dropped.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::control {

class JobLines;

// Does nothing before JobLines starts it.
class Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct promise_type {
    JobLines* lines = nullptr;
    model::JobId job;

    // Tells the line that it has ended, which destroys it.
    struct End {
      [[nodiscard]] bool await_ready() const noexcept { return false; }
      void await_suspend(Handle handle) const noexcept;
      void await_resume() const noexcept {}
    };
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
    [[nodiscard]] End final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

 private:
  friend class JobLines;
  explicit Task(Handle handle) : handle_(handle) {}
  Handle handle_;
};

// Tasks of one job one after the other, in the order in which they came; of different jobs side by
// side. Used with the control side's lock held.
class JobLines {
 public:
  JobLines() = default;
  JobLines(const JobLines&) = delete;
  JobLines& operator=(const JobLines&) = delete;

  void add(model::JobId job, Task task);
  [[nodiscard]] std::size_t size() const { return lines_.size(); }

 private:
  friend struct Task::promise_type::End;
  void start_first(model::JobId job);
  void ended(model::JobId job);

  std::map<model::JobId, std::deque<Task>> lines_;
};

// Where replies come in: from any thread, and as long as the control side is there.
class ReplyBox {
 public:
  // `lock` is the control side's; `wake` is called, without it, after each reply.
  ReplyBox(std::mutex& lock, std::function<void()> wake) : lock_(&lock), wake_(std::move(wake)) {}

  // With the lock held: a reply is expected.
  void expect() { ++expected_; }
  // `take` is called with the lock held; not at all once the box is closed.
  void deliver(const std::function<void()>& take);
  // Nothing is delivered any more when this returns. Without the lock.
  void close();
  // For tests: until no reply is expected.
  void wait_until_idle();

 private:
  std::mutex open_;  // held over a delivery, so that close() waits for it
  bool closed_ = false;
  std::mutex* lock_;
  std::function<void()> wake_;
  std::size_t expected_ = 0;  // with *lock_
  std::condition_variable idle_;
};

// `co_await` sends all orders and gives their answers, in the same order, when the last has come.
template <typename One>
class Asked {
 public:
  using Reply = Result<typename One::Answer>;
  struct To {
    agent::Agent* agent;  // null: nobody knows that machine
    One order;
  };

  Asked(std::shared_ptr<ReplyBox> box, std::vector<To> orders)
      : box_(std::move(box)), orders_(std::move(orders)) {}

  [[nodiscard]] bool await_ready() const noexcept { return orders_.empty(); }
  bool await_suspend(std::coroutine_handle<> waiting) {
    replies_.resize(orders_.size());
    left_ = 1;  // until all are sent, so that nobody goes on meanwhile
    for (std::size_t i = 0; i < orders_.size(); ++i) {
      if (orders_[i].agent == nullptr) {
        replies_[i] = err(ErrorCode::kUnavailable, "there is no such machine");
        continue;
      }
      ++left_;
      box_->expect();
      agent::ask(*orders_[i].agent, std::move(orders_[i].order),
                 [this, i, waiting, box = box_](Reply reply) {
                   box->deliver([&] {
                     replies_[i] = std::move(reply);
                     if (--left_ == 0) waiting.resume();
                   });
                 });
    }
    return --left_ > 0;
  }
  std::vector<Reply> await_resume() {
    std::vector<Reply> replies;
    replies.reserve(replies_.size());
    for (std::optional<Reply>& reply : replies_) replies.push_back(*std::move(reply));
    return replies;
  }

 private:
  std::shared_ptr<ReplyBox> box_;
  std::vector<To> orders_;
  std::vector<std::optional<Reply>> replies_;
  std::size_t left_ = 0;
};

// The same for one order.
template <typename One>
class AskedOne {
 public:
  AskedOne(std::shared_ptr<ReplyBox> box, agent::Agent* agent, One order)
      : all_(std::move(box), make(agent, std::move(order))) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) { return all_.await_suspend(waiting); }
  Result<typename One::Answer> await_resume() { return std::move(all_.await_resume().front()); }

 private:
  static std::vector<typename Asked<One>::To> make(agent::Agent* agent, One order) {
    std::vector<typename Asked<One>::To> orders;
    orders.push_back({agent, std::move(order)});
    return orders;
  }
  Asked<One> all_;
};

}  // namespace divvy::control
