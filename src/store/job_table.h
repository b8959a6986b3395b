// Jobs as they are kept: what was submitted, where it stands, every step of its life, and the
// members of every attempt. A view of a connection, made where it is used and on its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "store/connection.h"

namespace divvy::store {

// Which jobs, and which of those: pages follow each other by the id of the last job of the one
// before, so that none is shown twice or left out when jobs come and go meanwhile.
struct JobFilter {
  static constexpr std::uint32_t kMostPerPage = 1000;

  std::vector<model::JobState> states;  // empty: any
  std::optional<std::string> owner;
  std::optional<std::string> queue;  // with the queues below it
  std::optional<std::string> name;
  std::optional<model::JobId> array;  // the tasks of one
  std::optional<WallTime> submitted_since;
  std::optional<WallTime> submitted_before;
  bool newest_first = true;
  std::optional<model::JobId> after;  // the page behind this job
  std::uint32_t limit = 100;
};

struct JobPage {
  std::vector<model::Job> jobs;
  std::optional<model::JobId> next;  // `after` of the next page; nothing: this is the last
};

struct JobAttempt {
  std::uint32_t attempt = 0;
  std::vector<model::JobMember> members;
  std::optional<WallTime> started{};  // nothing: it never ran, or that was not written down yet
  friend bool operator==(const JobAttempt&, const JobAttempt&) = default;
};

// What became of a job, as far as others wait for it.
struct JobOutcome {
  model::JobId id;
  std::optional<model::JobId> array;  // the first job of its array
  model::JobState state = model::JobState::kQueued;
  friend bool operator==(const JobOutcome&, const JobOutcome&) = default;
};

class JobTable {
 public:
  // The connection outlives it.
  explicit JobTable(Connection& connection) : connection_(connection) {}

  // Inside a change: the id of the next job. Ids are never given twice, whatever was pruned.
  [[nodiscard]] Result<model::JobId> next_id();

  [[nodiscard]] Status insert(const model::Job& job);
  // Everything but what was submitted. Adds the steps that are new, and keeps the members of
  // earlier attempts. kNotFound when there is no such job.
  [[nodiscard]] Status update(const model::Job& job);

  [[nodiscard]] Result<std::optional<model::Job>> find(model::JobId id);
  [[nodiscard]] Result<JobPage> list(const JobFilter& filter);
  // What a daemon that comes back has to know, oldest first.
  [[nodiscard]] Result<std::vector<model::Job>> unfinished();
  // Of one job; where it is the first of an array, of all its tasks.
  [[nodiscard]] Result<std::vector<JobOutcome>> outcomes(model::JobId id);
  // With their members, oldest first; the last is the one of the job itself.
  [[nodiscard]] Result<std::vector<JobAttempt>> attempts(model::JobId id);
  [[nodiscard]] Result<std::map<model::JobState, std::uint64_t>> counts();

  // Finished jobs that ended before, of one owner or of all, those that ended first; at most `most`
  // of them. Never one that a job waits for which has not ended, and no task of an array of which
  // another has not.
  [[nodiscard]] Result<std::vector<model::JobId>> old_jobs(WallTime ended_before,
                                                           const std::optional<std::string>& owner,
                                                           std::uint32_t most);
  // When the job ended of which `newer` ended later; nothing: there are not so many.
  [[nodiscard]] Result<std::optional<WallTime>> end_behind(std::uint32_t newer);
  // Ended jobs, those that ended first.
  [[nodiscard]] Result<std::vector<model::JobId>> ended();
  // What a member's attempt and rank were, of every attempt.
  struct MemberName {
    std::uint32_t attempt = 0;
    std::uint32_t rank = 0;
  };
  [[nodiscard]] Result<std::vector<MemberName>> member_names(model::JobId id);
  [[nodiscard]] Status remove(model::JobId id);
  // Forgets what old_jobs() answers, so few at a time that a large clean-up does not hold up the
  // others. Answers with those that are gone, in the order of their numbers.
  [[nodiscard]] Result<std::vector<model::JobId>> prune(WallTime ended_before,
                                                        const std::optional<std::string>& owner,
                                                        std::uint32_t most = 1000);

 private:
  [[nodiscard]] Result<model::Job> read_job(Statement& row);
  [[nodiscard]] Result<std::vector<model::JobMember>> read_members(model::JobId id,
                                                                   std::uint32_t attempt);
  [[nodiscard]] Status write_members(const model::Job& job);
  [[nodiscard]] Status add_steps(const model::Job& job, std::size_t from);

  Connection& connection_;
};

}  // namespace divvy::store
