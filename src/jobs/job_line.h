// Who is next: the jobs that could start, in the order in which they are tried. Queues by their
// fair share, level by level; inside a queue by priority, the latency class before batch, those
// whom others have passed as long as may be before the rest, then by the fair share of the users,
// then by age.
//
// JobLine keeps them; a Turn walks through them once, for one pass. A start changes the fair
// shares, so the Turn is told and chooses anew. jobs::Queue owns both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "jobs/fair_share.h"
#include "jobs/queue_tree.h"
#include "model/job.h"

namespace divvy::jobs {

class JobLine {
 public:
  // `passed`: others have passed it as long as may be.
  void add(QueueId queue, UserId user, const model::Job& job, bool passed = false);
  void remove(QueueId queue, UserId user, const model::Job& job, bool passed = false);
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  friend class Turn;
  struct Level {
    std::int32_t priority = 0;
    model::JobClass job_class = model::JobClass::kBatch;
    bool passed = false;
    // The one that goes first is the smaller one.
    friend bool operator<(const Level& a, const Level& b) {
      return std::tuple(b.priority, b.job_class, b.passed) <
             std::tuple(a.priority, a.job_class, a.passed);
    }
  };
  using ByAge = std::set<std::pair<WallTime, model::JobId>>;
  using ByUser = std::map<UserId, ByAge>;
  struct Lane {
    std::map<Level, ByUser> levels;
    std::size_t jobs = 0;
  };

  [[nodiscard]] static Level level_of(const model::Job& job, bool passed) {
    return {job.spec.priority, job.spec.job_class, passed};
  }

  std::vector<Lane> lanes_;  // by queue
  std::size_t size_ = 0;
};

// The line, the tree and the shares outlive it. Only jobs that were returned may leave the line
// while it walks.
class Turn {
 public:
  Turn(const JobLine& line, const QueueTree& tree, const FairShare& shares);

  [[nodiscard]] std::optional<model::JobId> next();
  // The job that was returned last has started: the shares are others now.
  void started();

 private:
  struct Waiting {
    UserId user;
    double score = 0;
    JobLine::ByAge::const_iterator next;
    JobLine::ByAge::const_iterator end;
    // Of users with the same share the one whose job is older goes first.
    [[nodiscard]] bool goes_before(const Waiting& other) const {
      return score != other.score ? score < other.score : *next < *other.next;
    }
  };
  struct Place {
    std::size_t below = 0;  // jobs that were not returned yet, in this queue and below
    std::size_t here = 0;
    bool entered = false;
    std::map<JobLine::Level, JobLine::ByUser>::const_iterator level;
    std::vector<Waiting> users;  // of that level: a heap, the next one first
  };

  [[nodiscard]] const JobLine::Lane& lane(QueueId queue) const;
  [[nodiscard]] QueueId choose_queue() const;
  void enter(QueueId queue, std::map<JobLine::Level, JobLine::ByUser>::const_iterator level);
  [[nodiscard]] model::JobId take_from(QueueId queue);

  const JobLine& line_;
  const QueueTree& tree_;
  const FairShare& shares_;
  std::vector<Place> places_;
  std::optional<QueueId> queue_;  // from which the last one came
  UserId user_;
};

}  // namespace divvy::jobs
