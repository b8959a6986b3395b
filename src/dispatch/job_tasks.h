// Work that takes its time (a start waits for a shepherd, or for podman) on a few threads of its
// own: tasks of one job in the order in which they came, of different jobs side by side. Callable
// from any thread.
#pragma once

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

  explicit JobTasks(unsigned threads);
  // Waits for the tasks that run; those that wait are dropped.
  ~JobTasks();
  JobTasks(const JobTasks&) = delete;
  JobTasks& operator=(const JobTasks&) = delete;

  void add(model::JobId job, Task task);
  // For tests: until there is nothing more to do.
  void wait_until_idle();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<model::JobId, std::deque<Task>> tasks_;
  std::deque<model::JobId> ready_;  // jobs with a task that may run
  std::set<model::JobId> running_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace divvy::dispatch
