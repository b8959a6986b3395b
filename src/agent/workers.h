// Threads for work that may block: a start waits for a shepherd or for podman, an end for a process
// that the kernel holds. Each kind of work has threads of its own, so that none keeps the others
// waiting. Callable from any thread.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace divvy::agent {

enum class Work { kStart, kGrant, kEnd, kLook };

class Workers {
 public:
  // Most threads of each kind, in the order of Work; they are made when they are needed.
  explicit Workers(const std::array<unsigned, 4>& most);
  // Waits for what runs; what waits is dropped.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void add(Work work, std::function<void()> task);

 private:
  struct Pool {
    unsigned most = 0;
    unsigned idle = 0;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    std::vector<std::thread> threads;
  };
  void run(Pool& pool);

  std::mutex mutex_;
  bool stopping_ = false;
  std::array<Pool, 4> pools_;
};

}  // namespace divvy::agent
