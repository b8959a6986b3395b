// Who used how much in the past, forgotten bit by bit: GPU time counts half after each half-life.
// A value without clock: time comes in with `advance`. jobs::Queue owns it.
//
// The score that decides who is next is what was used and what is held now, as if that went on for
// one half-life more, by weight:
//
//   score = (used GPU seconds, decayed + GPUs held now * half-life) / weight
//
// The lower goes first. What is held counts at once, so that GPUs that become free together do not
// all go to the one who used the least so far.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "jobs/queue_tree.h"

namespace divvy::jobs {

// What a user used in a queue until that moment: how the past comes back after a restart. Rows are
// decayed from their moment on, so one for each job and one for everything come to the same.
struct UsageRow {
  std::string queue;
  std::string user;
  double share_seconds = 0;  // in thousandths of a GPU times seconds
  WallTime at;
  friend bool operator==(const UsageRow&, const UsageRow&) = default;
};

class FairShare {
 public:
  explicit FairShare(Seconds half_life) : half_life_(half_life) {}

  // Adds what is held in the tree since the last call, then forgets. A clock that was set back adds
  // nothing.
  void advance(const QueueTree& tree, WallTime now);
  void add(const QueueTree& tree, QueueId queue, UserId user, double share_seconds, WallTime at);

  // In a queue and all below; in the queue itself; by a user in the queue itself.
  [[nodiscard]] double used(QueueId queue) const;
  [[nodiscard]] double used_here(QueueId queue) const;
  [[nodiscard]] double used(QueueId queue, UserId user) const;

  [[nodiscard]] double score(const QueueTree& tree, QueueId queue) const;
  // Of the queue's own jobs, against the queues below it.
  [[nodiscard]] double score_here(const QueueTree& tree, QueueId queue) const;
  [[nodiscard]] double score(const QueueTree& tree, QueueId queue, UserId user) const;

  [[nodiscard]] std::vector<UsageRow> rows(const QueueTree& tree) const;

 private:
  void book(const QueueTree& tree, QueueId queue, UserId user, double share_seconds);
  [[nodiscard]] double decay(WallTime from, WallTime to) const;
  [[nodiscard]] double score_of(double used, std::uint64_t share, std::uint32_t weight) const;

  Seconds half_life_;
  std::optional<WallTime> at_;
  std::map<std::pair<QueueId, UserId>, double> by_user_;
  std::vector<double> here_;
  std::vector<double> used_;
};

}  // namespace divvy::jobs
