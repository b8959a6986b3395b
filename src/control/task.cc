#include "control/task.h"

namespace divvy::control {

void Task::promise_type::End::await_suspend(Handle handle) const noexcept {
  JobLines& its_lines = *handle.promise().lines;
  const model::JobId its_job = handle.promise().job;
  its_lines.ended(its_job);  // destroys what this belongs to
}

void JobLines::add(model::JobId job, Task task) {
  std::deque<Task>& line = lines_[job];
  line.push_back(std::move(task));
  if (line.size() == 1) start_first(job);
}

void JobLines::start_first(model::JobId job) {
  const Task::Handle first = lines_.at(job).front().handle_;
  first.promise().lines = this;
  first.promise().job = job;
  first.resume();
}

void JobLines::ended(model::JobId job) {
  const auto line = lines_.find(job);
  line->second.pop_front();
  if (line->second.empty()) {
    lines_.erase(line);
  } else {
    start_first(job);
  }
}

void ReplyBox::deliver(const std::function<void()>& take) {
  const std::lock_guard open(open_);
  if (closed_) return;
  {
    const std::lock_guard lock(*lock_);
    take();
    --expected_;
    idle_.notify_all();
  }
  wake_();
}

void ReplyBox::close() {
  const std::lock_guard open(open_);
  closed_ = true;
}

void ReplyBox::wait_until_idle() {
  std::unique_lock lock(*lock_);
  idle_.wait(lock, [this] { return expected_ == 0; });
}

}  // namespace divvy::control
