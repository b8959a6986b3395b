// One of several processes leads: whoever holds a Lease of the API server and renews it.
//
// Never two at once, as long as clocks run at rates that differ by less than half: a leader counts
// from before it asked for its last renewal that was granted, and stops by itself after 10 s; the
// others count from when they saw the last change, and wait 15 s. There is no fencing: whatever the
// leader writes carries uid and resource version.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/clock.h"
#include "kube/api_server.h"

namespace divvy::kube {

struct LeaseOptions {
  std::string space;     // Namespace of the lease
  std::string name;      // Of the lease
  std::string identity;  // Ours; never that of another process: pod name and uid
  // Of that namespace, with which the lease goes: {apiVersion, kind, name, uid}. Empty: it stays.
  boost::json::object owner = {};
  std::chrono::seconds duration{15};
  std::chrono::seconds renew_deadline{10};
  std::chrono::seconds retry{2};
};

// One candidate, step by step. is_leader() from any thread, the rest from one.
class LeaseCandidate {
 public:
  // `api` and `clock` outlive it.
  LeaseCandidate(ApiServer& api, Clock& clock, LeaseOptions options);

  // One attempt to get the lease or to renew it. A failure is an error for the log: leadership goes
  // with time, not with errors.
  [[nodiscard]] Status step();
  // Gives it up so that the next one need not wait. What the leader did has ended before. An error:
  // the next one waits.
  [[nodiscard]] Status release();

  [[nodiscard]] bool is_leader() const { return clock_.now() < leader_until(); }
  // TimePoint::min() where it never was.
  [[nodiscard]] TimePoint leader_until() const { return TimePoint(Duration(until_.load())); }
  [[nodiscard]] const LeaseOptions& options() const { return options_; }

 private:
  [[nodiscard]] std::string path() const;
  [[nodiscard]] boost::json::object filled(boost::json::object lease, bool taken) const;
  [[nodiscard]] Status write(boost::json::object lease);
  [[nodiscard]] Status create();
  void win(TimePoint asked_at, boost::json::object lease);
  void lose();

  ApiServer& api_;
  Clock& clock_;
  const LeaseOptions options_;
  std::optional<boost::json::object> mine_;  // As we wrote it last
  std::string seen_version_;                 // Of the lease as another's
  TimePoint seen_at_{};                      // When that was new to us
  std::atomic<Duration::rep> until_;
};

// A candidate with its threads: tries every two seconds, and says when it leads and when not.
class LeaderElection {
 public:
  // Called from one thread of its own, in turns. `on_stopped` comes at the latest when another may
  // lead: what it has to stop has five seconds.
  LeaderElection(ApiServer& api, Clock& clock, LeaseOptions options,
                 std::function<void()> on_started, std::function<void()> on_stopped);
  // Calls `on_stopped` where it leads, then gives the lease back.
  ~LeaderElection();
  LeaderElection(const LeaderElection&) = delete;
  LeaderElection& operator=(const LeaderElection&) = delete;

  [[nodiscard]] bool is_leader() const { return candidate_.is_leader(); }

 private:
  void attempt(const std::stop_token& stop);
  void notify(const std::stop_token& stop);

  Clock& clock_;
  LeaseCandidate candidate_;
  const std::function<void()> on_started_;
  const std::function<void()> on_stopped_;
  std::jthread attempts_;
  std::jthread notifier_;
};

}  // namespace divvy::kube
