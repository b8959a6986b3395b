#include "dispatch/job_tasks.h"

#include <utility>

namespace divvy::dispatch {

JobTasks::JobTasks(unsigned threads) {
  threads_.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

JobTasks::~JobTasks() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void JobTasks::add(model::JobId job, Task task) {
  {
    const std::lock_guard lock(mutex_);
    std::deque<Task>& mine = tasks_[job];
    mine.push_back(std::move(task));
    if (mine.size() == 1 && !running_.contains(job)) ready_.push_back(job);
  }
  changed_.notify_all();
}

void JobTasks::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && running_.empty(); });
}

void JobTasks::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
    if (stopping_) return;
    const model::JobId job = ready_.front();
    ready_.pop_front();
    std::deque<Task>& mine = tasks_[job];
    const Task task = std::move(mine.front());
    mine.pop_front();
    running_.insert(job);
    lock.unlock();
    task();
    lock.lock();
    running_.erase(job);
    if (const auto found = tasks_.find(job); found->second.empty()) {
      tasks_.erase(found);
    } else {
      ready_.push_back(job);
    }
    changed_.notify_all();
  }
}

}  // namespace divvy::dispatch
