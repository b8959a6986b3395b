// What becomes of a job whose owner changes their mind: another specification, or another try.
#include "base/text.h"
#include "jobs/queue.h"
#include "model/seconds.h"

namespace divvy::jobs {
namespace {

using model::JobSpec;
using model::JobState;
using model::StopReason;

// "priority 7 instead of 0, queue b instead of a"
class Differences {
 public:
  void add(std::string_view what, const std::string& now, const std::string& before) {
    if (now == before) return;
    text_ += fmt::format("{}{} {} instead of {}", text_.empty() ? "" : ", ", what, now, before);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string time_text(const std::optional<model::Seconds>& time) {
  return time ? model::seconds_text(*time) : "none";
}

std::string gpu_text(const JobSpec& spec) {
  return spec.request.by_memory() ? "by memory" : to_string(spec.request.share());
}

std::string memory_text(const JobSpec& spec) {
  return spec.request.memory() ? to_string(*spec.request.memory()) : "as of the GPU";
}

// What decides where it can be; the rest may change while it runs.
std::string other_place(const JobSpec& now, const JobSpec& before) {
  Differences place;
  place.add("queue", now.queue, before.queue);
  place.add("gpu", gpu_text(now), gpu_text(before));
  place.add("gpu_memory", memory_text(now), memory_text(before));
  place.add("members", std::to_string(now.members()), std::to_string(before.members()));
  return place.text();
}

std::string other_rules(const JobSpec& now, const JobSpec& before) {
  Differences rules;
  rules.add("priority", std::to_string(now.priority), std::to_string(before.priority));
  rules.add("time_limit", time_text(now.time_limit), time_text(before.time_limit));
  rules.add("expected", time_text(now.expected), time_text(before.expected));
  return rules.text();
}

tl::unexpected<Error> not_here(model::JobId job) {
  return err(ErrorCode::kFailedPrecondition, "job {} has ended; submit it again", job);
}

}  // namespace

Status Queue::update(model::JobId job, const Edit& edit, const std::string& by, WallTime now) {
  Entry* const found = entry(job);
  if (found == nullptr || is_finished(found->job.state)) return not_here(job);
  model::Job& changed = found->job;
  DIVVY_TRY(spec, edit(changed.spec));
  const bool other_limit = spec.time_limit != changed.spec.time_limit;
  if (other_limit || spec.queue != changed.spec.queue) spec = with_defaults(std::move(spec));
  const std::string place = other_place(spec, changed.spec);
  const std::string rules = other_rules(spec, changed.spec);
  if (place.empty() && rules.empty()) return {};
  const bool waits = changed.state == JobState::kQueued || changed.state == JobState::kSuspended;
  if (!place.empty() && !waits) {
    return err(ErrorCode::kFailedPrecondition,
               "{} is {}: queue, gpu, gpu_memory and members change while it waits; requeue or "
               "suspend it first",
               name_of(changed), to_string(changed.state));
  }
  if (!place.empty()) {
    DIVVY_RETURN_IF_ERROR(check_size(spec, changed.owner));
  } else {
    DIVVY_RETURN_IF_ERROR(check_priority(found->queue, spec.priority));
    // One that was submitted before the limit was set keeps what it has.
    if (other_limit) DIVVY_RETURN_IF_ERROR(check_time_limit(found->queue, spec));
  }
  // The line is sorted by what changes. Room that others make for it stays its own unless it is to
  // be somewhere else.
  const bool in_line = found->waits == Waits::kInLine;
  const bool anew = !place.empty() && changed.state == JobState::kQueued;
  if (anew) {
    dequeue(*found);
  } else if (in_line) {
    line_.remove(found->queue, found->user, changed, found->passed);
  }
  leave_places(*found);
  changed.spec = std::move(spec);
  if (!place.empty()) {
    found->queue = tree_.ensure(changed.spec.queue);
    found->shape = shape_of(changed);
  }
  if (is_active(changed.state)) take_places(*found);
  if (anew) {
    enqueue(*found, now);
  } else if (in_line) {
    line_.add(found->queue, found->user, changed, found->passed);
  }
  changed.history.push_back(
      {now, changed.state,
       fmt::format("{}{}{}, by {}", place, place.empty() || rules.empty() ? "" : ", ", rules,
                   escape_for_terminal(by))});
  changed_.insert(job);
  return {};
}

Status Queue::requeue(model::JobId job, const std::string& by, WallTime now) {
  Entry* const found = entry(job);
  if (found == nullptr || is_finished(found->job.state)) return not_here(job);
  DIVVY_RETURN_IF_ERROR(check_startable(found->job, "requeued"));
  const std::string text = fmt::format("requeued by {}", escape_for_terminal(by));
  switch (found->job.state) {
    case JobState::kStarting:
    case JobState::kRunning:
      stop(*found, StopReason::kPreempted, now, text);
      return {};
    case JobState::kSuspended:
      become(*found, JobState::kQueued, now, text);
      enqueue(*found, now);
      return {};
    default:
      return err(ErrorCode::kFailedPrecondition, "{} is {} and cannot be requeued",
                 name_of(found->job), to_string(found->job.state));
  }
}

}  // namespace divvy::jobs
