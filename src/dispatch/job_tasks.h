// Work that may block (a start waits for a shepherd, or for podman; an end for a process that the
// kernel holds) on threads of its own: tasks of one job in the order in which they came, of
// different jobs side by side. Starts, grants of slices that somebody waits for and ends have
// threads of their own, so that none keeps the others waiting. Callable from any thread.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "model/job_spec.h"

namespace divvy::dispatch {

class JobTasks {
 public:
  using Task = std::function<void()>;
  enum class Kind { kStart, kGrant, kEnd };

  // So many of each kind at the same time; threads are made when they are needed.
  JobTasks(unsigned most_starts, unsigned most_grants, unsigned most_ends);
  // Waits for the tasks that run; those that wait are dropped.
  ~JobTasks();
  JobTasks(const JobTasks&) = delete;
  JobTasks& operator=(const JobTasks&) = delete;

  void add(model::JobId job, Kind kind, Task task);
  // For tests: until there is nothing more to do.
  void wait_until_idle();

 private:
  struct Waiting {
    Kind kind;
    Task task;
  };
  // The threads of one kind.
  struct Pool {
    unsigned most = 0;
    unsigned idle = 0;
    std::deque<model::JobId> ready;  // jobs whose next task is of this kind and may run
    std::vector<std::thread> threads;
  };

  [[nodiscard]] Pool& pool(Kind kind) { return pools_[static_cast<std::size_t>(kind)]; }
  // With the lock.
  void make_ready(model::JobId job);
  void work(Pool& pool);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<model::JobId, std::deque<Waiting>> tasks_;
  std::set<model::JobId> running_;
  bool stopping_ = false;
  std::array<Pool, 3> pools_;  // by kind
};

}  // namespace divvy::dispatch
