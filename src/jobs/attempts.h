// The attempts to run jobs: from the place that a job is given until nothing of it lives, and what
// becomes of it then. Collects what is to be done as decisions. jobs::Queue owns it and tells it
// what it hears of members.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jobs/decision.h"
#include "jobs/holdings.h"
#include "jobs/idle.h"
#include "jobs/job_book.h"
#include "place/request.h"

namespace divvy::jobs {

class Attempts {
 public:
  // All outlive it.
  Attempts(JobBook& book, Holdings& holdings, const FleetView& fleet, const QueueTree& tree)
      : book_(book), holdings_(holdings), fleet_(fleet), tree_(tree) {}

  // A job that has left the line gets these spots.
  void start(Entry& entry, std::span<const place::Spot> spots, WallTime now);
  // One that was active before a restart. If it was being stopped it is told once more, because
  // nobody knows whether it was.
  void restore(Entry& entry, WallTime now);

  void member_started(Entry& entry, std::uint32_t rank, WallTime now);
  void member_ended(Entry& entry, std::uint32_t rank, model::MemberEnd end, WallTime now);
  // One that runs is no job of its own any more: it lets go, and has ended.
  void dissolve(Entry& entry, WallTime now);
  void start_refused(Entry& entry, const std::string& why, WallTime now);
  void start_failed(Entry& entry, const std::string& why, WallTime now);

  void stop(Entry& entry, model::StopReason reason, WallTime now, std::string text,
            std::optional<model::JobId> makes_way_for = {});
  // One that is being stopped gets another reason.
  void change_stop_reason(Entry& entry, model::StopReason reason, WallTime now, std::string text);
  // Time limits, idleness, GPUs that failed.
  void stop_overdue(WallTime now);
  // Those who wait for what can no longer happen.
  void cancel_hopeless(WallTime now);
  [[nodiscard]] std::vector<Decision> take_decisions();

  // It was seen at work on its GPU.
  void used(model::JobId job, WallTime at) { idle_.used(job, at); }
  // From the warning on: how long until it is ended for not using its GPU.
  [[nodiscard]] std::optional<Seconds> idle_left(const Entry& entry, WallTime now) const;
  // When the next of them is overdue, or, if others wait, has run long enough to make way.
  [[nodiscard]] std::optional<WallTime> next_due(bool others_wait, WallTime now) const;

  // How long it may take: what its owner says; otherwise what jobs of that owner took in that queue
  // so far.
  [[nodiscard]] std::optional<Seconds> usual_length(const Entry& entry) const;
  // Queues and users have other numbers.
  void forget_lengths() { lengths_.clear(); }

 private:
  void end_if_over(Entry& entry, WallTime now);
  void stopped(Entry& entry, WallTime now);
  void failed(Entry& entry, WallTime now, const std::string& why);
  void let_go(Entry& entry);
  void queue_again(Entry& entry, WallTime now, std::string reason, std::optional<Seconds> pause);

  JobBook& book_;
  Holdings& holdings_;
  const FleetView& fleet_;
  const QueueTree& tree_;
  IdleWatch idle_;
  std::vector<Decision> decisions_;
  struct Lengths {
    double sum_s = 0;
    double count = 0;
  };
  std::map<std::pair<QueueId, UserId>, Lengths> lengths_;  // of jobs that succeeded
};

}  // namespace divvy::jobs
