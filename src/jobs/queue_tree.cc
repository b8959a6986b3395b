#include "jobs/queue_tree.h"

#include <algorithm>

#include "base/check.h"
#include "base/counted.h"
#include "base/text.h"

namespace divvy::jobs {
namespace {

Share share_of(std::uint64_t thousandths) {
  return Share(
      static_cast<std::uint32_t>(std::min<std::uint64_t>(thousandths, Share::kMaxThousandths)));
}

using What = QuotaObstacle::What;

// The first of the three that would be too much.
std::optional<What> too_much(const Held& held, const Held& more, const Quota& most) {
  if (most.jobs && held.jobs + more.jobs > *most.jobs) return What::kJobs;
  if (most.share && held.share + more.share > most.share->thousandths()) return What::kShare;
  if (most.memory && held.memory + more.memory > most.memory->count()) return What::kMemory;
  return std::nullopt;
}

// "4 of the 4 GPU"
std::string held_of_most(What what, const Held& held, const Quota& most) {
  switch (what) {
    case What::kJobs:
      return fmt::format("{} of the {}", held.jobs, counted(*most.jobs, "job"));
    case What::kShare:
      return fmt::format("{} of the {} GPU", share_of(held.share), *most.share);
    case What::kMemory:
      return fmt::format("{} of the {} of GPU memory", humanize(Bytes(held.memory)),
                         humanize(*most.memory));
  }
  return {};
}

// What a queue never holds more of.
Quota most_of(const QueueSettings& queue) {
  Quota most;
  most.jobs = queue.quota.jobs;
  most.share = queue.may_borrow ? queue.most_share : queue.quota.share;
  if (!queue.may_borrow) most.memory = queue.quota.memory;
  return most;
}

bool promises(const Quota& quota) { return quota.share.has_value() || quota.memory.has_value(); }

bool within(const Held& held, const Held& more, const Quota& quota) {
  return (!quota.share || held.share + more.share <= quota.share->thousandths()) &&
         (!quota.memory || held.memory + more.memory <= quota.memory->count());
}

}  // namespace

Held held_by(std::span<const model::JobMember> members) {
  Held held{0, 0, 1};
  for (const model::JobMember& member : members) {
    for (const model::Slice& slice : member.slices) {
      held.share += slice.share().thousandths();
      held.memory += slice.memory().count();
    }
  }
  return held;
}

Held& operator+=(Held& a, const Held& b) {
  a.share += b.share;
  a.memory += b.memory;
  a.jobs += b.jobs;
  return a;
}

Held& operator-=(Held& a, const Held& b) {
  DIVVY_CHECK(a.share >= b.share && a.memory >= b.memory && a.jobs >= b.jobs,
              "more is given back to a queue than was taken");
  a.share -= b.share;
  a.memory -= b.memory;
  a.jobs -= b.jobs;
  return a;
}

QueueTree::QueueTree(const Settings& settings) : idle_(settings.idle), time_(settings.time) {
  nodes_.emplace_back();
  by_path_.emplace("", root());
  for (const UserSettings& user : settings.users) {
    const UserId id = this->user(user.name);
    users_[id.value()].most = user.most;
    users_[id.value()].weight = user.weight;
  }
  ensure(Settings::kDefaultQueue);
  for (const QueueSettings& queue : settings.queues) at(ensure(queue.path)).settings = queue;
}

std::optional<QueueId> QueueTree::find(std::string_view path) const {
  const auto found = by_path_.find(path);
  if (found == by_path_.end() || path.empty()) return std::nullopt;
  return found->second;
}

QueueId QueueTree::ensure(std::string_view path) {
  const auto found = by_path_.find(path);
  if (found != by_path_.end()) return found->second;
  const std::size_t slash = path.rfind('/');
  const QueueId above =
      ensure(slash == std::string_view::npos ? std::string_view() : path.substr(0, slash));
  const QueueId id(static_cast<std::uint32_t>(nodes_.size()));
  Node node;
  node.settings.path = path;
  node.parent = above;
  nodes_.push_back(std::move(node));
  by_path_.emplace(path, id);
  auto& sisters = at(above).children;
  sisters.push_back(id);
  std::ranges::sort(sisters, {},
                    [this](QueueId queue) -> const std::string& { return settings(queue).path; });
  return id;
}

UserId QueueTree::user(const std::string& name) {
  const UserId next(static_cast<std::uint32_t>(users_.size()));
  const auto [found, is_new] = by_name_.try_emplace(name, next);
  if (is_new) users_.push_back({name, {}, 1, {}});
  return found->second;
}

std::optional<std::string> QueueTree::similar(std::string_view path) const {
  std::vector<std::string> paths;
  for (const auto& [known, id] : by_path_) {
    if (id != root()) paths.push_back(known);
  }
  return did_you_mean(path, std::span<const std::string>(paths));
}

const IdlePolicy& QueueTree::idle(QueueId queue) const {
  for (QueueId i = queue; i != root(); i = parent(i)) {
    if (settings(i).idle) return *settings(i).idle;
  }
  return idle_;
}

TimeLimits QueueTree::time(QueueId queue) const {
  TimeLimits result;
  const auto follow = [&result](const TimeLimits& above) {
    if (!result.usual) result.usual = above.usual;
    if (above.most) result.most = std::min(result.most.value_or(*above.most), *above.most);
  };
  for (QueueId i = queue; i != root(); i = parent(i)) follow(settings(i).time);
  follow(time_);
  // A job without a limit would run for longer than any may.
  if (result.most) result.usual = std::min(result.usual.value_or(*result.most), *result.most);
  return result;
}

std::string QueueTree::whose_most_time(QueueId queue) const {
  const auto most = time(queue).most;
  for (QueueId i = queue; i != root(); i = parent(i)) {
    if (most && settings(i).time.most == most) return "queue " + settings(i).path;
  }
  return "every queue";
}

bool QueueTree::is_below(QueueId queue, QueueId above) const {
  for (QueueId i = queue; i != above; i = parent(i)) {
    if (i == root()) return false;
  }
  return true;
}

void QueueTree::take(QueueId queue, UserId user, const Held& held) {
  at(queue).here += held;
  at(queue).here_by_user[user] += held;
  users_[user.value()].held += held;
  for (QueueId i = queue;; i = parent(i)) {
    at(i).held += held;
    at(i).by_user[user] += held;
    if (i == root()) break;
  }
}

void QueueTree::give_back(QueueId queue, UserId user, const Held& held) {
  at(queue).here -= held;
  at(queue).here_by_user[user] -= held;
  users_[user.value()].held -= held;
  for (QueueId i = queue;; i = parent(i)) {
    at(i).held -= held;
    at(i).by_user[user] -= held;
    if (i == root()) break;
  }
}

Held QueueTree::held_here(QueueId queue, UserId user) const {
  const auto found = at(queue).here_by_user.find(user);
  return found == at(queue).here_by_user.end() ? Held{} : found->second;
}

Held QueueTree::held_by(QueueId queue, UserId user) const {
  const auto found = at(queue).by_user.find(user);
  return found == at(queue).by_user.end() ? Held{} : found->second;
}

std::optional<QuotaObstacle> QueueTree::obstacle(QueueId queue, UserId user,
                                                 const Held& more) const {
  const User& person = users_[user.value()];
  if (const auto what = too_much(person.held, more, person.most)) {
    return QuotaObstacle{std::nullopt, true, *what};
  }
  for (QueueId i = queue; i != root(); i = parent(i)) {
    const QueueSettings& here = settings(i);
    if (here.per_user != Quota{}) {
      const auto what = too_much(held_by(i, user), more, here.per_user);
      if (what) return QuotaObstacle{i, true, *what};
    }
    if (const auto what = too_much(at(i).held, more, most_of(here))) {
      return QuotaObstacle{i, false, *what};
    }
  }
  return std::nullopt;
}

std::string QueueTree::describe(const QuotaObstacle& obstacle, UserId user) const {
  const User& person = users_[user.value()];
  const std::string name = escape_for_terminal(person.name);
  if (!obstacle.queue) {
    const bool one = obstacle.what == What::kJobs && person.most.jobs == 1U;
    return fmt::format("{} holds {} that {} allowed; it starts when one of the user's jobs ends",
                       name, held_of_most(obstacle.what, person.held, person.most),
                       one ? "is" : "are");
  }
  const QueueSettings& here = settings(*obstacle.queue);
  if (obstacle.of_user) {
    return fmt::format(
        "{} holds {} that each user may have in queue {}; it starts when one of the user's jobs "
        "there ends",
        name, held_of_most(obstacle.what, held_by(*obstacle.queue, user), here.per_user),
        here.path);
  }
  std::string_view of = "of its quota, and it may not borrow";
  if (obstacle.what == What::kJobs) of = "that may run there at one time";
  if (obstacle.what == What::kShare && here.may_borrow) of = "that it may have, borrowed and own";
  return fmt::format("queue {} holds {} {}; it starts when a job of that queue ends", here.path,
                     held_of_most(obstacle.what, at(*obstacle.queue).held, most_of(here)), of);
}

std::optional<std::string> QueueTree::limit_below(QueueId queue, UserId user,
                                                  const Held& wanted) const {
  const auto refuse = [](const std::string& who, const Quota& most) {
    return fmt::format("{} may have at most {} at one time", who, jobs::describe(most));
  };
  const User& person = users_[user.value()];
  const std::string name = escape_for_terminal(person.name);
  if (too_much({}, wanted, person.most)) return refuse(name, person.most);
  for (QueueId i = queue; i != root(); i = parent(i)) {
    const QueueSettings& here = settings(i);
    if (too_much({}, wanted, here.per_user)) {
      return refuse(fmt::format("each user of queue {}", here.path), here.per_user);
    }
    const Quota most = most_of(here);
    if (too_much({}, wanted, most)) return refuse("queue " + here.path, most);
  }
  return std::nullopt;
}

// From the queue up to just below `below`: is something promised there, and is all of it kept to?
bool QueueTree::inside_promise(QueueId queue, QueueId below, const Held& more) const {
  bool promised = false;
  for (QueueId i = queue; i != below; i = parent(i)) {
    const Quota& quota = settings(i).quota;
    if (!within(at(i).held, more, quota)) return false;
    promised = promised || promises(quota);
  }
  return promised;
}

bool QueueTree::may_reclaim(QueueId taker, const Held& more, QueueId holder) const {
  QueueId common = holder;
  while (!is_below(taker, common)) common = parent(common);
  // Between a queue and one below it there is nothing to give back: they share one promise.
  if (common == holder || common == taker) return false;
  return inside_promise(taker, common, more) && !inside_promise(holder, common, {});
}

}  // namespace divvy::jobs
