#include "model/job.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace divvy::model {
namespace {

constexpr std::array<std::string_view, 8> kStateNames{
    "queued", "starting", "running", "stopping", "suspended", "succeeded", "failed", "cancelled"};
constexpr std::array<std::string_view, 8> kReasonNames{"cancelled",     "suspended",  "preempted",
                                                       "reclaimed",     "time-limit", "idle",
                                                       "member-failed", "place-lost"};

template <typename Enum, std::size_t kSize>
Result<Enum> parse_one_of(std::string_view text, const std::array<std::string_view, kSize>& names,
                          std::string_view of) {
  const auto* const found = std::ranges::find(names, to_lower(trim(text)));
  if (found != names.end()) return static_cast<Enum>(found - names.begin());
  const auto meant = did_you_mean(trim(text), names);
  return err(ErrorCode::kInvalidArgument, "there is no {} \"{}\"; {}", of,
             escape_for_terminal(text.substr(0, 40)),
             meant ? fmt::format("did you mean {}?", *meant)
                   : fmt::format("write {}", fmt::join(names, ", ")));
}

}  // namespace

std::string_view to_string(JobState state) { return kStateNames[static_cast<std::size_t>(state)]; }

Result<JobState> parse_job_state(std::string_view text) {
  return parse_one_of<JobState>(text, kStateNames, "job state");
}

std::string_view to_string(StopReason reason) {
  return kReasonNames[static_cast<std::size_t>(reason)];
}

Result<StopReason> parse_stop_reason(std::string_view text) {
  return parse_one_of<StopReason>(text, kReasonNames, "reason to stop a job");
}

bool is_finished(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool is_active(JobState state) {
  return state == JobState::kStarting || state == JobState::kRunning ||
         state == JobState::kStopping;
}

bool may_become(JobState from, JobState to) {
  switch (from) {
    case JobState::kQueued:
      return to == JobState::kStarting || to == JobState::kSuspended || to == JobState::kCancelled;
    case JobState::kStarting:
      // Back in the queue when a crash or the machine kept it from getting a member.
      return to == JobState::kRunning || to == JobState::kStopping || to == JobState::kQueued ||
             to == JobState::kFailed;
    case JobState::kRunning:
      // Back in the queue when it failed and is to be tried again.
      return to == JobState::kStopping || to == JobState::kQueued || to == JobState::kSucceeded ||
             to == JobState::kFailed;
    case JobState::kStopping:
      // Succeeded when it had come to its end before the word to stop reached it.
      return to == JobState::kQueued || to == JobState::kSuspended || is_finished(to);
    case JobState::kSuspended:
      return to == JobState::kQueued || to == JobState::kCancelled;
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      return false;
  }
  return false;
}

Status Job::become(JobState next, WallTime at, std::string reason) {
  if (!may_become(state, next)) {
    return err(ErrorCode::kFailedPrecondition, "job {} is {} and cannot become {}", id,
               to_string(state), to_string(next));
  }
  state = next;
  history.push_back({at, next, std::move(reason)});
  if (next != JobState::kStopping) stopping.reset();
  if (next == JobState::kStarting) started.reset();
  if (next == JobState::kRunning) started = at;
  if (is_finished(next)) ended = at;
  return {};
}

}  // namespace divvy::model
