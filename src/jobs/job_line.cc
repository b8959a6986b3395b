#include "jobs/job_line.h"

#include <algorithm>

#include "base/check.h"

namespace divvy::jobs {
namespace {

// The heaps of the standard library have the largest in front.
constexpr auto kLater = [](const auto& a, const auto& b) { return b.goes_before(a); };

}  // namespace

void JobLine::add(QueueId queue, UserId user, const model::Job& job, bool passed) {
  if (lanes_.size() <= queue.value()) lanes_.resize(queue.value() + 1);
  Lane& lane = lanes_[queue.value()];
  const bool is_new =
      lane.levels[level_of(job, passed)][user].emplace(job.submitted, job.id).second;
  DIVVY_CHECK(is_new, "job {} is in line twice", job.id);
  ++lane.jobs;
  ++size_;
}

void JobLine::remove(QueueId queue, UserId user, const model::Job& job, bool passed) {
  Lane& lane = lanes_[queue.value()];
  // Emptied levels stay while somebody may walk through them; there are few.
  const std::size_t erased =
      lane.levels[level_of(job, passed)][user].erase({job.submitted, job.id});
  DIVVY_CHECK(erased == 1, "job {} is not in line", job.id);
  --lane.jobs;
  --size_;
}

Turn::Turn(const JobLine& line, const QueueTree& tree, const FairShare& shares)
    : line_(line), tree_(tree), shares_(shares), places_(tree.size()) {
  for (std::uint32_t i = 0; i < line.lanes_.size(); ++i) {
    const std::size_t jobs = line.lanes_[i].jobs;
    places_[i].here = jobs;
    for (QueueId queue(i); jobs != 0; queue = tree.parent(queue)) {
      places_[queue.value()].below += jobs;
      if (queue == QueueTree::root()) break;
    }
  }
}

const JobLine::Lane& Turn::lane(QueueId queue) const { return line_.lanes_[queue.value()]; }

// Down from the root, always to the one that has had the least.
QueueId Turn::choose_queue() const {
  QueueId queue = QueueTree::root();
  for (;;) {
    std::optional<QueueId> best;
    double best_score = 0;
    if (places_[queue.value()].here != 0) {
      best = queue;
      best_score = shares_.score_here(tree_, queue);
    }
    for (const QueueId child : tree_.children(queue)) {
      if (places_[child.value()].below == 0) continue;
      const double score = shares_.score(tree_, child);
      if (best && score >= best_score) continue;
      best = child;
      best_score = score;
    }
    DIVVY_CHECK(best.has_value(), "nobody waits where somebody was counted");
    if (*best == queue) return queue;
    queue = *best;
  }
}

void Turn::enter(QueueId queue, std::map<JobLine::Level, JobLine::ByUser>::const_iterator level) {
  Place& place = places_[queue.value()];
  place.level = level;
  place.users.clear();
  if (level == lane(queue).levels.end()) return;
  for (const auto& [user, jobs] : level->second) {
    if (jobs.empty()) continue;
    place.users.push_back({user, shares_.score(tree_, queue, user), jobs.begin(), jobs.end()});
  }
  std::ranges::make_heap(place.users, kLater);
}

model::JobId Turn::take_from(QueueId queue) {
  Place& place = places_[queue.value()];
  const auto& levels = lane(queue).levels;
  if (!std::exchange(place.entered, true)) enter(queue, levels.begin());
  while (place.users.empty()) {
    DIVVY_CHECK(place.level != levels.end(), "a queue has fewer jobs than were counted");
    enter(queue, std::next(place.level));
  }
  std::ranges::pop_heap(place.users, kLater);
  Waiting& waiting = place.users.back();
  // Past it before it is returned: it may be gone from the line afterwards.
  const model::JobId job = waiting.next->second;
  user_ = waiting.user;
  ++waiting.next;
  if (waiting.next == waiting.end) {
    place.users.pop_back();
  } else {
    std::ranges::push_heap(place.users, kLater);
  }
  --place.here;
  for (QueueId i = queue;; i = tree_.parent(i)) {
    --places_[i.value()].below;
    if (i == QueueTree::root()) break;
  }
  return job;
}

std::optional<model::JobId> Turn::next() {
  if (places_[QueueTree::root().value()].below == 0) return std::nullopt;
  if (!queue_ || places_[queue_->value()].here == 0) queue_ = choose_queue();
  return take_from(*queue_);
}

void Turn::started() {
  if (!queue_) return;
  Place& place = places_[queue_->value()];
  for (Waiting& waiting : place.users) {
    if (waiting.user == user_) waiting.score = shares_.score(tree_, *queue_, waiting.user);
  }
  std::ranges::make_heap(place.users, kLater);
  queue_.reset();
}

}  // namespace divvy::jobs
