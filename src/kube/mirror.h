// The objects of a collection, kept in memory as they change: a list, then a watch for ever. An API
// server that is away, restarted or has forgotten the past (410) is waited for; then what happened
// meanwhile is told, deletions too. One thread for each mirror.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "kube/api_server.h"
#include "kube/mirror_state.h"

namespace divvy::kube {

struct MirrorOptions {
  std::string path;  // Of the collection, with its selectors
  std::size_t page = 500;
  // How long a watch may last before it begins anew; up to twice as long, so that not all end at
  // the same time.
  std::chrono::seconds watch_time{300};
  // After the second failure in a row; doubles up to the other.
  std::chrono::milliseconds first_delay{250};
  std::chrono::milliseconds most_delay{10'000};
};

class Mirror {
 public:
  // Called from the mirror's thread, after find() and all() show the change.
  using Listener = std::function<void(const ObjectChange&)>;

  // Begins at once. `on_synced` is called once, when the first list was told. `api` and `clock`
  // outlive it.
  Mirror(ApiServer& api, Clock& clock, MirrorOptions options, Listener on_change,
         std::function<void()> on_synced = {});
  // Ends a watch and a wait at once; a list that is under way, when its page comes or its time is
  // over.
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // From any thread. Null: there is none.
  [[nodiscard]] ObjectPtr find(const std::string& space, const std::string& name) const;
  [[nodiscard]] std::vector<ObjectPtr> all() const;
  // The first list was told: what is not here is not there.
  [[nodiscard]] bool synced() const { return synced_; }
  // Whether it is so within the time, of a real clock.
  [[nodiscard]] bool await_synced(std::chrono::milliseconds most) const;

 private:
  void run(const std::stop_token& stop);
  [[nodiscard]] Status list(const std::stop_token& stop);
  [[nodiscard]] Status watch(const std::stop_token& stop);
  void tell(const std::vector<ObjectChange>& changes);
  void wait_after(const Error& error, const std::stop_token& stop);

  ApiServer& api_;
  Clock& clock_;
  const MirrorOptions options_;
  const Listener on_change_;
  const std::function<void()> on_synced_;
  mutable std::mutex mutex_;
  mutable std::condition_variable synced_changed_;
  MirrorState state_;  // Guarded; only the thread changes it
  std::atomic<bool> synced_{false};
  // Of the thread alone.
  bool listed_ = false;
  unsigned failures_ = 0;  // In a row
  std::minstd_rand random_;
  std::jthread thread_;  // Last: it uses all of the above
};

}  // namespace divvy::kube
