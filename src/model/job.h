// A job and where it stands. A plain value; the queue owns the one that counts, the store keeps it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::model {

//   queued -> starting -> running -> succeeded | failed
//                  \          \----> stopping -> queued | suspended | failed | cancelled
// A queued job may be suspended (it keeps its place in line and does not start) and cancelled at
// once; one that has members is stopped first.
enum class JobState {
  kQueued,
  kStarting,
  kRunning,
  kStopping,
  kSuspended,
  kSucceeded,
  kFailed,
  kCancelled
};

[[nodiscard]] std::string_view to_string(JobState state);
[[nodiscard]] Result<JobState> parse_job_state(std::string_view text);

[[nodiscard]] bool is_finished(JobState state);
// It has, or is about to have, a place and members.
[[nodiscard]] bool is_active(JobState state);
[[nodiscard]] bool may_become(JobState from, JobState to);

// Why a job is being stopped, which decides what it is afterwards.
enum class StopReason {
  kCancelled,     // its owner or an operator said so: cancelled
  kSuspended,     // likewise, to go on later: suspended
  kPreempted,     // somebody of higher right needs the place: queued
  kReclaimed,     // its queue had borrowed from one that wants its quota back: queued
  kTimeLimit,     // failed
  kIdle,          // holds a GPU and does not use it: failed
  kMemberFailed,  // one of the gang did: queued while there are retries, otherwise failed
  kPlaceLost,     // GPU or node failed: queued
};
[[nodiscard]] std::string_view to_string(StopReason reason);
[[nodiscard]] Result<StopReason> parse_stop_reason(std::string_view text);

// One step of a job's life.
struct JobStep {
  WallTime at;
  JobState state = JobState::kQueued;
  std::string reason;  // for people: "preempted by train (31)"
  friend bool operator==(const JobStep&, const JobStep&) = default;
};

// What a member used, from its start to its end, as far as anybody could tell.
struct MemberUse {
  std::optional<Duration> cpu;           // of all its processes, in user and system mode
  std::optional<Bytes> ram_peak;         // of all of them together, or of the largest one
  std::optional<Bytes> gpu_memory_peak;  // on that of its GPUs on which it was the most
  friend bool operator==(const MemberUse&, const MemberUse&) = default;
};

// How a member ended.
struct MemberEnd {
  WallTime at;
  int exit_code = 0;
  int signal = 0;      // not 0: it was killed by it
  std::string reason;  // where there is more to say: "out of memory"
  MemberUse use{};
  [[nodiscard]] bool succeeded() const { return exit_code == 0 && signal == 0; }
  friend bool operator==(const MemberEnd&, const MemberEnd&) = default;
};

// One member of a job's present or last attempt.
struct JobMember {
  std::uint32_t rank = 0;
  std::string node;
  std::vector<Slice> slices;
  std::optional<MemberEnd> end;
  friend bool operator==(const JobMember&, const JobMember&) = default;
};

struct ArrayTask {
  JobId array;  // the first job of the array
  std::uint32_t index = 0;
  std::uint32_t at_once = 0;  // tasks of the array that run at one time; 0: as many as fit
  friend bool operator==(const ArrayTask&, const ArrayTask&) = default;
};

struct Job {
  Job(JobId id_, std::string owner_, JobSpec spec_, WallTime submitted_)
      : id(id_), owner(std::move(owner_)), spec(std::move(spec_)), submitted(submitted_) {}

  JobId id;
  std::string owner;  // name of a user
  JobSpec spec;       // as submitted, but of an array task without `array`
  WallTime submitted;
  std::optional<ArrayTask> task;
  JobState state = JobState::kQueued;
  std::optional<StopReason> stopping;  // while it is stopping
  std::uint32_t attempt = 0;           // 0: it was never started
  std::uint32_t failures = 0;          // attempts that count against its retries
  std::optional<WallTime> not_before;  // back-off
  std::optional<WallTime> started;     // of the present attempt
  std::optional<WallTime> ended;       // of the job
  std::vector<JobMember> members;      // of the present or last attempt
  std::vector<JobStep> history;        // oldest first
  friend bool operator==(const Job&, const Job&) = default;

  // Changes the state, with a line in the history, if that step is allowed; otherwise changes
  // nothing. What follows from the step follows here, so that nobody forgets it: `started` is set
  // with running and cleared with starting, `ended` is set with the end, `stopping` ends with it.
  [[nodiscard]] Status become(JobState next, WallTime at, std::string reason);
};

}  // namespace divvy::model
