// Which jobs wait for others, and what became of those. A value; jobs::Queue owns it and tells it
// of every job that comes and ends.
//
// Waiting for the first job of an array means waiting for all of its tasks: it has succeeded when
// all have, failed when one has, and ended when all have. What can no longer happen is told too:
// the job that waits for it is cancelled.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/job.h"

namespace divvy::jobs {

// A job that has ended, as far as others can wait for it.
struct FinishedJob {
  model::JobId id;
  std::optional<model::JobId> array;  // the first job of its array
  model::JobState state = model::JobState::kSucceeded;
  friend bool operator==(const FinishedJob&, const FinishedJob&) = default;
};

class Dependencies {
 public:
  enum class Answer { kMet, kWaits, kNever };
  struct Outlook {
    Answer answer = Answer::kMet;
    std::optional<model::Dependency> on;  // the first that is not met
    std::string text;                     // "it waits for job 17 to succeed"
  };

  // A job that has not ended. Whoever it waits for came before it.
  void add(const model::Job& job);
  // Of the past: only what somebody waits for needs to be told.
  void add(const FinishedJob& finished);
  // Returns who waited for it, for whom something may have changed.
  [[nodiscard]] std::vector<model::JobId> finish(const model::Job& job);
  // Nobody who comes later can wait for it any more.
  void forget(model::JobId job);

  // Is it known, so that one can wait for it?
  [[nodiscard]] bool knows(model::JobId job) const { return groups_.contains(job); }
  [[nodiscard]] Outlook outlook(const model::JobSpec& spec) const;
  [[nodiscard]] std::size_t size() const { return groups_.size(); }

 private:
  // A job by itself, or an array under the number of its first.
  struct Group {
    std::uint32_t open = 0;
    std::uint32_t succeeded = 0;
    std::uint32_t failed = 0;
    std::uint32_t cancelled = 0;
    std::set<model::JobId> waiting;
  };

  [[nodiscard]] static Answer answer(const Group& group, model::DependencyKind kind);
  static void count(Group& group, model::JobState state);

  std::unordered_map<model::JobId, Group> groups_;
};

}  // namespace divvy::jobs
