#include "agent/workers.h"

#include <utility>

namespace divvy::agent {

Workers::Workers(const std::array<unsigned, 4>& most) {
  for (std::size_t i = 0; i < most.size(); ++i) pools_[i].most = most[i];
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (Pool& pool : pools_) {
    pool.changed.notify_all();
    for (std::thread& thread : pool.threads) thread.join();
  }
}

void Workers::add(Work work, std::function<void()> task) {
  Pool& pool = pools_[static_cast<std::size_t>(work)];
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    pool.tasks.push_back(std::move(task));
    if (pool.tasks.size() > pool.idle && pool.threads.size() < pool.most) {
      pool.threads.emplace_back([this, &pool] { run(pool); });
    }
  }
  pool.changed.notify_one();
}

void Workers::run(Pool& pool) {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++pool.idle;
    pool.changed.wait(lock, [&] { return stopping_ || !pool.tasks.empty(); });
    --pool.idle;
    if (stopping_) return;
    const std::function<void()> task = std::move(pool.tasks.front());
    pool.tasks.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace divvy::agent
