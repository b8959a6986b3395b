#include "model/job.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "model/name.h"

namespace divvy::model {
namespace {

constexpr std::array<std::string_view, 6> kStateNames{"queued",    "starting", "running",
                                                      "succeeded", "failed",   "cancelled"};

}  // namespace

std::string_view to_string(JobState state) { return kStateNames[static_cast<std::size_t>(state)]; }

Result<JobState> parse_job_state(std::string_view text) {
  const auto* const found = std::ranges::find(kStateNames, to_lower(trim(text)));
  if (found != kStateNames.end()) return static_cast<JobState>(found - kStateNames.begin());
  return err(ErrorCode::kInvalidArgument,
             "there is no job state \"{}\"; write queued, starting, running, succeeded, failed or "
             "cancelled",
             escape_for_terminal(text.substr(0, 40)));
}

bool is_finished(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool may_become(JobState from, JobState to) {
  switch (from) {
    case JobState::kQueued:
      return to == JobState::kStarting || to == JobState::kCancelled;
    case JobState::kStarting:
      return to == JobState::kRunning || to == JobState::kFailed || to == JobState::kQueued ||
             to == JobState::kCancelled;
    case JobState::kRunning:
      return is_finished(to) || to == JobState::kQueued;
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      return false;
  }
  return false;
}

Result<Job> Job::create(JobId id, std::string name, Request request) {
  DIVVY_CHECK_OK(check_name("job", name));
  return Job(id, std::move(name), std::move(request));
}

Status Job::become(JobState next) {
  if (!may_become(state_, next)) {
    return err(ErrorCode::kFailedPrecondition, "job {} ({}) is {} and cannot become {}", name_, id_,
               to_string(state_), to_string(next));
  }
  state_ = next;
  return {};
}

}  // namespace divvy::model
