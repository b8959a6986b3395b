#include "dispatch/job_tasks.h"

#include <utility>

namespace divvy::dispatch {

JobTasks::JobTasks(unsigned most_starts, unsigned most_grants, unsigned most_ends) {
  pool(Kind::kStart).most = most_starts;
  pool(Kind::kGrant).most = most_grants;
  pool(Kind::kEnd).most = most_ends;
}

JobTasks::~JobTasks() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (Pool& pool : pools_) {
    for (std::thread& thread : pool.threads) thread.join();
  }
}

void JobTasks::add(model::JobId job, Kind kind, Task task) {
  {
    const std::lock_guard lock(mutex_);
    std::deque<Waiting>& mine = tasks_[job];
    mine.push_back({kind, std::move(task)});
    if (mine.size() == 1 && !running_.contains(job)) make_ready(job);
  }
  changed_.notify_all();
}

void JobTasks::make_ready(model::JobId job) {
  Pool& next = pool(tasks_[job].front().kind);
  next.ready.push_back(job);
  if (next.ready.size() > next.idle && next.threads.size() < next.most && !stopping_) {
    next.threads.emplace_back([this, &next] { work(next); });
  }
}

void JobTasks::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && running_.empty(); });
}

void JobTasks::work(Pool& pool) {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++pool.idle;
    changed_.wait(lock, [this, &pool] { return stopping_ || !pool.ready.empty(); });
    --pool.idle;
    if (stopping_) return;
    const model::JobId job = pool.ready.front();
    pool.ready.pop_front();
    std::deque<Waiting>& mine = tasks_[job];
    const Task task = std::move(mine.front().task);
    mine.pop_front();
    running_.insert(job);
    lock.unlock();
    task();
    lock.lock();
    running_.erase(job);
    if (const auto found = tasks_.find(job); found->second.empty()) {
      tasks_.erase(found);
    } else {
      make_ready(job);
    }
    changed_.notify_all();
  }
}

}  // namespace divvy::dispatch
