// Whose turn is next on one GPU: earliest eligible virtual deadline first (Stoica and Abdel-Wahab,
// 1995), kept as lags instead of virtual times.
//
// A member has a weight and a request: how long it may run at a stretch. Its lag is the service
// that its weight entitles it to among the members that are active, less what it has had. Who has a
// lag of zero or more is eligible; of those, the one whose request is due first runs, where a
// request of r is due r / weight after it began, in virtual time. In terms of lags that is the
// least (left - lag) / weight, so no absolute time is kept, and nothing that happened long ago can
// matter. `left` is what is left of the request of whoever has the turn, and a whole request for
// everybody else: a turn that was cut short is not made up for by a short one.
//
// What holds (fair_queue_test.cc, for random histories): the lags of the active members add up to
// zero, and that of a member with work stays within one request of the longest kind, plus what
// cannot be interrupted. A pause keeps a lag, at most one request of it, and what a member had
// beyond its part is forgotten as the others are served. Whoever is alone has no lag.
//
// Plain values, one thread, no clock.
#pragma once

#include <cstddef>
#include <vector>

namespace divvy::share {

class FairQueue {
 public:
  using Member = std::size_t;
  static constexpr Member kNobody = ~Member{0};

  struct Terms {
    double weight = 1;
    double request_ns = 0;
    // What is kept of its lag; the rest is forgotten. Both are reached only by members that run
    // what nobody else wants, or do not run although they may.
    double most_ahead_ns = 0;
    double most_behind_ns = 0;
  };

  // Members are numbered by the caller; a new one is inactive and has no lag.
  void add(Member member, const Terms& terms);
  void change(Member member, const Terms& terms);
  void remove(Member member);

  // Active: it has work that it may run. Who comes begins a new request.
  void set_active(Member member, bool active);
  [[nodiscard]] bool active(Member member) const { return members_[member].active; }

  // It was served for so long since the last settle(). Also of an inactive one, which may finish
  // what it had begun.
  void serve(Member member, double ns);
  // Settles what was served against what everybody was entitled to.
  void settle();

  [[nodiscard]] double lag_ns(Member member) const { return members_[member].lag_ns; }
  // Its request is used up. Stays so until renew().
  [[nodiscard]] bool used_up(Member member) const { return members_[member].left_ns <= 0; }
  void renew(Member member) { members_[member].left_ns = members_[member].terms.request_ns; }
  // It is ahead by as much as one request that began with no lag would have brought it, or more.
  [[nodiscard]] bool ahead_by_a_request(Member member) const;
  // In virtual time from now; smaller is earlier. `holder` has the turn.
  [[nodiscard]] double deadline_ns(Member member, Member holder = kNobody) const;

  // The eligible member with the earliest deadline; if none of them is eligible, the one with the
  // earliest of all. `among` says of each member whether it may be chosen. Where two are due at the
  // same time, the holder of the turn is.
  [[nodiscard]] Member first(const std::vector<bool>& among, Member holder = kNobody) const;

 private:
  struct Entry {
    bool used = false;
    bool active = false;
    Terms terms;
    double lag_ns = 0;
    double left_ns = 0;
    double served_ns = 0;
  };

  // Adds to the lags of the active, by weight.
  void divide(double lag_ns);

  std::vector<Entry> members_;
};

}  // namespace divvy::share
