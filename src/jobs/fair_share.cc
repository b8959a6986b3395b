#include "jobs/fair_share.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace divvy::jobs {
namespace {

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

double value_at(const std::vector<double>& values, QueueId queue) {
  return queue.value() < values.size() ? values[queue.value()] : 0;
}

}  // namespace

double FairShare::decay(WallTime from, WallTime to) const {
  return to <= from ? 1.0 : std::exp2(-seconds(to - from) / seconds(half_life_));
}

void FairShare::book(const QueueTree& tree, QueueId queue, UserId user, double share_seconds) {
  if (used_.size() < tree.size()) {
    used_.resize(tree.size());
    here_.resize(tree.size());
  }
  by_user_[{queue, user}] += share_seconds;
  here_[queue.value()] += share_seconds;
  for (QueueId i = queue;; i = tree.parent(i)) {
    used_[i.value()] += share_seconds;
    if (i == QueueTree::root()) break;
  }
}

void FairShare::advance(const QueueTree& tree, WallTime now) {
  if (!at_ || now <= *at_) {
    at_ = now;
    return;
  }
  const double left = decay(*at_, now);
  for (auto& [key, used] : by_user_) used *= left;
  for (double& used : here_) used *= left;
  for (double& used : used_) used *= left;
  // What is held all the time, each moment of it decayed until now.
  const double each = seconds(half_life_) / std::numbers::ln2 * (1 - left);
  for (std::uint32_t queue = 0; queue < tree.size(); ++queue) {
    if (tree.held_here(QueueId(queue)).share == 0) continue;
    for (std::uint32_t user = 0; user < tree.users(); ++user) {
      const std::uint64_t share = tree.held_here(QueueId(queue), UserId(user)).share;
      if (share != 0) {
        book(tree, QueueId(queue), UserId(user), static_cast<double>(share) * each);
      }
    }
  }
  at_ = now;
}

void FairShare::add(const QueueTree& tree, QueueId queue, UserId user, double share_seconds,
                    WallTime at) {
  if (!at_) at_ = at;
  // A row from the future is a clock that was set: it counts as of now.
  book(tree, queue, user, share_seconds * decay(at, *at_));
}

double FairShare::used(QueueId queue) const { return value_at(used_, queue); }
double FairShare::used_here(QueueId queue) const { return value_at(here_, queue); }

double FairShare::used(QueueId queue, UserId user) const {
  const auto found = by_user_.find({queue, user});
  return found == by_user_.end() ? 0 : found->second;
}

double FairShare::score_of(double used, std::uint64_t share, std::uint32_t weight) const {
  return (used + static_cast<double>(share) * seconds(half_life_)) / weight;
}

double FairShare::score(const QueueTree& tree, QueueId queue) const {
  return score_of(used(queue), tree.held(queue).share, tree.settings(queue).weight);
}

double FairShare::score_here(const QueueTree& tree, QueueId queue) const {
  return score_of(used_here(queue), tree.held_here(queue).share, 1);
}

double FairShare::score(const QueueTree& tree, QueueId queue, UserId user) const {
  return score_of(used(queue, user), tree.held_here(queue, user).share, tree.weight(user));
}

std::vector<UsageRow> FairShare::rows(const QueueTree& tree) const {
  std::vector<UsageRow> rows;
  rows.reserve(by_user_.size());
  for (const auto& [key, used] : by_user_) {
    // What is as good as forgotten need not be kept.
    if (used < 1) continue;
    rows.push_back({tree.settings(key.first).path, tree.user_name(key.second), used,
                    at_.value_or(WallTime())});
  }
  return rows;
}

}  // namespace divvy::jobs
