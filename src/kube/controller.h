// The controller of a cluster, running: mirrors of pods, claims, GPU nodes, nodes and namespaces
// feed a ClusterQueue on a thread of its own, and a few threads write what it decides. Of several
// replicas one leads (a Lease) and decides and writes; the others keep their mirrors warm. A queue
// lives as long as a leadership: the next leader begins anew from what its mirrors show.
//
// The methods may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/timings.h"
#include "kube/api_server.h"
#include "kube/cluster_queue.h"
#include "kube/lease.h"
#include "kube/mirror.h"

namespace divvy::kube {

class Controller {
 public:
  struct Options {
    ClusterQueue::Options queue = {};
    LeaseOptions lease = {};
    unsigned writers = 8;
    bool claims = true;    // whether this cluster has resource claims
    bool queues = true;    // whether it has queues as objects
    bool policies = true;  // likewise policies
    bool capacity_plans = true;
  };

  // `reading` is for lists, watches and the lease. A request of `writing` has to end within five
  // seconds: so long a leader has that may not write any more. Both and `clock` outlive it.
  // Refused: settings that do not pass jobs::check().
  [[nodiscard]] static Result<std::unique_ptr<Controller>> create(ApiServer& reading,
                                                                  ApiServer& writing, Clock& clock,
                                                                  Options options);
  // Ends what is being written, then gives the lease to the next one.
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // It leads, and has seen every object.
  [[nodiscard]] bool leads() const { return leads_; }
  [[nodiscard]] Status set_settings(jobs::Settings settings);
  // kUnavailable: another replica leads, or nobody does yet. Nothing: no pod of ours.
  [[nodiscard]] Result<std::optional<PodReport>> explain(const std::string& space,
                                                         const std::string& name);
  // As its mirror has it; null where it has none (yet). Of every replica.
  [[nodiscard]] ObjectPtr find_namespace(std::string_view name) const;
  // How the pods of a namespace are read: as it says itself, as its policy does, or as is usual.
  // Refused: it says something that cannot be meant. kUnavailable: nobody knows yet, because
  // namespaces or policies have not been read since the start. Of every replica.
  [[nodiscard]] Result<DialectPolicy> dialects_for(std::string_view name,
                                                   const DialectPolicy& usual) const;
  // Returns when dialects_for() knows them all; false: not within that time.
  [[nodiscard]] bool await_policies(std::chrono::milliseconds most) const;
  // Of the leader; 0 elsewhere.
  struct Load {
    std::size_t pods = 0;
    std::size_t waiting = 0;
    std::uint64_t written = 0;  // requests that were answered, since it was started
    std::uint64_t failed = 0;   // of them with an error
    ClusterQueue::Moves moves = {};
    jobs::FreeRoom room = {};
    std::map<std::string, std::uint32_t> nodes_wanted = {};  // by their kind
  };
  [[nodiscard]] Load load();
  // How long decisions took.
  [[nodiscard]] DurationCounts decisions() const { return decisions_.counts(); }

 private:
  struct Change {
    ObjectKind kind;
    ObjectChange change;
  };
  struct Answer {
    std::uint64_t term;
    std::uint64_t number;
    Result<boost::json::object> result;
  };
  struct Job {
    std::uint64_t term;
    Action action;
  };

  Controller(ApiServer& reading, ApiServer& writing, Clock& clock, Options options);
  void follow(ObjectKind kind, MirrorOptions options);
  [[nodiscard]] bool synced() const;
  void ring();
  // The thread of the queue.
  void run();
  [[nodiscard]] bool begin_term();
  void end_term();
  void step();
  void tell(ObjectKind kind, const ObjectChange& change);
  // The threads that write.
  void write();
  [[nodiscard]] Result<boost::json::object> write_as_leader(const Action& action) const;
  void stop_writing();

  ApiServer& writing_;
  ApiServer& reading_;
  Clock& clock_;
  Options options_;

  std::atomic<bool> wanted_ = false;  // the lease is ours
  std::atomic<bool> leads_ = false;
  std::atomic<bool> rung_ = false;
  std::atomic<bool> stopping_ = false;

  std::mutex queue_mutex_;
  std::unique_ptr<ClusterQueue> queue_;  // guarded; null where another leads
  std::uint64_t term_ = 0;               // of the queue's thread, and guarded for the others

  std::mutex inbox_mutex_;  // of the next three
  bool collecting_ = false;
  std::vector<Change> changes_;
  std::vector<Answer> answers_;

  std::mutex write_mutex_;  // of the rest
  std::condition_variable write_changed_;
  std::deque<Job> urgent_;
  std::deque<Job> telling_;
  bool may_write_ = false;
  bool writers_end_ = false;
  unsigned writing_now_ = 0;
  std::atomic<std::uint64_t> written_ = 0;
  std::atomic<std::uint64_t> failed_ = 0;
  Timings decisions_;
  TimePoint rests_until_;

  std::vector<std::thread> writers_;
  std::array<std::unique_ptr<Mirror>, kObjectKinds> mirrors_;
  std::thread thread_;
  std::unique_ptr<LeaderElection> election_;
  std::atomic<const LeaderElection*> elected_ = nullptr;  // it, once it is made
};

}  // namespace divvy::kube
