// A piece of work that somebody submitted, and where it stands. A plain value; the queue owns the
// one that counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "model/request.h"

namespace divvy::model {

using JobId = StrongId<struct JobIdTag, std::uint64_t>;

//   queued -> starting -> running -> succeeded | failed
// From starting and running it may go back to queued (its place was lost or taken), and from every
// unfinished state it may be cancelled.
enum class JobState { kQueued, kStarting, kRunning, kSucceeded, kFailed, kCancelled };

[[nodiscard]] std::string_view to_string(JobState state);
[[nodiscard]] Result<JobState> parse_job_state(std::string_view text);

[[nodiscard]] bool is_finished(JobState state);
[[nodiscard]] bool may_become(JobState from, JobState to);

class Job {
 public:
  // A new job is queued. Refused: a bad name (model/name.h).
  [[nodiscard]] static Result<Job> create(JobId id, std::string name, Request request);

  [[nodiscard]] JobId id() const { return id_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Request& request() const { return request_; }
  [[nodiscard]] JobState state() const { return state_; }

  // Changes the state if that step is allowed and changes nothing otherwise.
  [[nodiscard]] Status become(JobState next);

  friend bool operator==(const Job&, const Job&) = default;

 private:
  Job(JobId id, std::string name, Request request)
      : id_(id), name_(std::move(name)), request_(std::move(request)) {}

  JobId id_;
  std::string name_;
  Request request_;
  JobState state_ = JobState::kQueued;
};

}  // namespace divvy::model
