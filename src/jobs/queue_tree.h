// The queues as a tree and what is held in each: who may hold how much more, and who has to give
// back to whom. A value without clock; jobs::Queue owns it and books every job that holds GPUs.
//
// A job is counted in its queue and in every queue above. A quota is a promise: what others hold of
// it they have borrowed, and it is taken back from them when the queue wants it. Who has no quota
// borrows everything that it holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "jobs/settings.h"
#include "model/job.h"

namespace divvy::jobs {

using QueueId = StrongId<struct QueueIdTag>;
using UserId = StrongId<struct UserIdTag>;

// What is held, or asked for: of GPUs in thousandths, of their memory in bytes.
struct Held {
  std::uint64_t share = 0;
  std::uint64_t memory = 0;
  std::uint32_t jobs = 0;
  friend bool operator==(const Held&, const Held&) = default;
};
Held& operator+=(Held& a, const Held& b);
Held& operator-=(Held& a, const Held& b);
// What the members of one job hold.
[[nodiscard]] Held held_by(std::span<const model::JobMember> members);

// A limit that stands in the way. Looked for very often, so it is put into words only where
// somebody reads them (QueueTree::describe).
struct QuotaObstacle {
  enum class What { kJobs, kShare, kMemory };
  std::optional<QueueId> queue;  // nothing: the user's own limit
  bool of_user = false;          // what one user may have, there or in all
  What what = What::kShare;
};

class QueueTree {
 public:
  // The settings have passed check().
  explicit QueueTree(const Settings& settings);

  [[nodiscard]] std::optional<QueueId> find(std::string_view path) const;
  // Makes a queue without quota where there is none: for jobs whose queue was removed.
  QueueId ensure(std::string_view path);
  [[nodiscard]] UserId user(const std::string& name);
  // A queue with a similar path, for "did you mean".
  [[nodiscard]] std::optional<std::string> similar(std::string_view path) const;

  // Queue 0 is the root above all; it has no path and no limit.
  [[nodiscard]] static QueueId root() { return QueueId(0); }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] const QueueSettings& settings(QueueId queue) const { return at(queue).settings; }
  [[nodiscard]] QueueId parent(QueueId queue) const { return at(queue).parent; }
  // In the order of their paths.
  [[nodiscard]] const std::vector<QueueId>& children(QueueId queue) const {
    return at(queue).children;
  }
  [[nodiscard]] const std::string& user_name(UserId user) const {
    return users_[user.value()].name;
  }
  [[nodiscard]] std::uint32_t weight(UserId user) const { return users_[user.value()].weight; }
  [[nodiscard]] const Quota& most(UserId user) const { return users_[user.value()].most; }
  [[nodiscard]] std::size_t users() const { return users_.size(); }
  // How idle jobs are treated here; a queue without its own rule has that of the one above.
  [[nodiscard]] const IdlePolicy& idle(QueueId queue) const;
  // How long jobs of this queue may run: the usual time of the nearest queue that has one, the most
  // of all of them; the usual time is never more than the most.
  [[nodiscard]] TimeLimits time(QueueId queue) const;
  // Whose the most is, for people: "queue research".
  [[nodiscard]] std::string whose_most_time(QueueId queue) const;
  [[nodiscard]] bool is_below(QueueId queue, QueueId above) const;  // or the same

  void take(QueueId queue, UserId user, const Held& held);
  void give_back(QueueId queue, UserId user, const Held& held);
  [[nodiscard]] const Held& held(QueueId queue) const { return at(queue).held; }
  // By jobs that are in this queue itself, not in one below.
  [[nodiscard]] const Held& held_here(QueueId queue) const { return at(queue).here; }
  [[nodiscard]] Held held_here(QueueId queue, UserId user) const;
  [[nodiscard]] Held held_by(QueueId queue, UserId user) const;
  [[nodiscard]] const Held& held_by(UserId user) const { return users_[user.value()].held; }

  // The first limit that so much more would break; nothing: it may be held.
  [[nodiscard]] std::optional<QuotaObstacle> obstacle(QueueId queue, UserId user,
                                                      const Held& more) const;

  // "queue vision holds 4 of the 4 GPU of its quota, ..."
  [[nodiscard]] std::string describe(const QuotaObstacle& obstacle, UserId user) const;
  // Why it could not have so much even if nobody else held anything; nothing: it could.
  [[nodiscard]] std::optional<std::string> limit_below(QueueId queue, UserId user,
                                                       const Held& wanted) const;

  // May `taker`, which wants so much more, have back what jobs of `holder` hold? It stays inside
  // its own promise, and the holder is beyond its own.
  [[nodiscard]] bool may_reclaim(QueueId taker, const Held& more, QueueId holder) const;

 private:
  struct Node {
    QueueSettings settings;
    QueueId parent;
    std::vector<QueueId> children;
    Held held;
    Held here;
    std::map<UserId, Held> by_user;
    std::map<UserId, Held> here_by_user;
  };
  struct User {
    std::string name;
    Quota most;
    std::uint32_t weight = 1;
    Held held;
  };

  [[nodiscard]] const Node& at(QueueId queue) const { return nodes_[queue.value()]; }
  [[nodiscard]] Node& at(QueueId queue) { return nodes_[queue.value()]; }
  [[nodiscard]] bool inside_promise(QueueId queue, QueueId below, const Held& more) const;

  std::vector<Node> nodes_;
  std::map<std::string, QueueId, std::less<>> by_path_;
  std::vector<User> users_;
  std::map<std::string, UserId> by_name_;
  IdlePolicy idle_;
  TimeLimits time_;
};

}  // namespace divvy::jobs
