// The controller's mind: pods that ask for slices, their claims and the nodes go in as documents,
// what is to be done at the API server comes out as actions. Every pod with our gate or annotation
// is a job of jobs::Queue, its containers are the members; what a claim says is allocated is held.
//
//   see() -> decide() -> actions, carried out by others -> done() -> decide() -> ...
//
// Everything that counts is in the documents, so that a new one that is fed all of them, in any
// order, holds the same and goes on. No document is believed to be new: each write carries the
// resource version or the uid of what it was decided on, and a conflict is read and decided again.
// A write of which nobody knows whether it was done is repeated as it was until somebody does, and
// holds its place meanwhile.
//
// Pure: no clock, no I/O, no thread; names of devices come from a seeded generator. Called by one
// thread.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "jobs/queue.h"
#include "kube/action.h"
#include "kube/cluster_fleet.h"
#include "kube/cluster_objects.h"

namespace divvy::kube {

enum class ObjectKind { kPod, kClaim, kGpuNode, kNode, kNamespace };

// What is said about a pod to whoever asks.
struct PodReport {
  bool placed = false;
  std::string node;  // where it is placed
  std::string text;  // why it waits, or what it has
  jobs::WaitReport wait;
};

class ClusterQueue {
 public:
  struct Options {
    jobs::Settings settings = {};
    std::uint64_t seed = 0;  // of the names of devices, which are unique for ever
    std::string instance = "divvy";
    // A node whose agent was not heard of for so long gets no new pods.
    Duration silence = std::chrono::seconds(60);
    // So long kube-scheduler may find that a pod does not fit where it was placed.
    Duration unschedulable = std::chrono::seconds(30);
    // A node that did not take a pod is not tried again for that pod for so long, and longer each
    // time.
    Duration avoid = std::chrono::seconds(60);
    // Pods on a GPU that failed are evicted, so that whoever owns them makes new ones elsewhere.
    bool evict_from_failed_gpus = true;
    // The condition of a pod that waits is written at most so often, and of so many in a second.
    Duration tell_again = std::chrono::seconds(30);
    std::size_t told_at_once = 8;
  };

  // Refused: settings that do not pass jobs::check().
  [[nodiscard]] static Result<std::unique_ptr<ClusterQueue>> create(Options options);
  ~ClusterQueue();
  ClusterQueue(const ClusterQueue&) = delete;
  ClusterQueue& operator=(const ClusterQueue&) = delete;

  // An object as it is now; one that is older than what is known is ignored. Refused: it is no
  // object of this kind, which changes nothing.
  [[nodiscard]] Status see(ObjectKind kind, const boost::json::object& object);
  // As it was when it went.
  void gone(ObjectKind kind, const boost::json::object& object);

  [[nodiscard]] std::vector<Action> decide(WallTime now);
  // What became of an action.
  void done(std::uint64_t number, const Result<boost::json::object>& result, WallTime now);
  // When decide() is due though nothing happens.
  [[nodiscard]] std::optional<WallTime> next(WallTime now) const;

  [[nodiscard]] Status set_settings(jobs::Settings settings);

  // Nothing: no pod of ours.
  [[nodiscard]] std::optional<PodReport> explain(const std::string& space, const std::string& name,
                                                 WallTime now);
  [[nodiscard]] std::size_t waiting() const { return queue_->waiting(); }
  [[nodiscard]] std::size_t pods() const { return works_.size(); }
  // What is held on the fleet: by pods' jobs, and by whatever no pod explains.
  struct Booking {
    std::string node;
    std::vector<model::Slice> slices;
  };
  [[nodiscard]] std::map<std::string, Booking> bookings() const;  // by uid of the claim or pod
  // For tests: how many entries its tables have.
  [[nodiscard]] std::size_t entries_kept() const;

 private:
  enum class Stage {
    kIdle,     // not in the queue
    kQueued,   // its job waits
    kPlanned,  // its job has a place, and the allocation is not known to be written
    kPlaced,   // the allocation stands in its claim, or in the pod
  };

  struct Work {
    explicit Work(PodFacts pod_) : pod(std::move(pod_)) {}

    PodFacts pod;  // as last seen
    bool gone = false;
    Stage stage = Stage::kIdle;
    model::JobId job;                 // of every stage but kIdle
    std::optional<Allocation> place;  // of kPlanned and kPlaced
    std::string claim_uid;            // of kPlaced: the claim's, or by slots its own
    std::uint64_t pass = 0;           // of kPlanned: which one decided it
    // An action on what says where it is (its claim, or by slots the pod) has no answer yet.
    bool claim_busy = false;
    std::optional<Action> again;  // that action, if it is to be repeated
    WallTime again_at;
    std::uint32_t attempts = 0;  // of actions that did not work, in a row
    bool pod_busy = false;       // likewise on the pod
    WallTime pod_again_at;
    bool evicted = false;
    std::string not_written = {};  // by slots: why the last place was not written
    bool told_stuck = false;       // by slots: that kube-scheduler does not take it where it is
    std::map<std::string, WallTime> avoided;  // nodes, and until when
    std::uint32_t refusals = 0;               // places in a row that were not taken
    std::optional<WallTime> not_before;
    std::string refusal;  // why it is not in the queue
    bool condition_busy = false;
    bool told_queued = false;
    std::string bound_when_queued;
    // The heartbeat of its node when the word came that it ended or is gone.
    std::optional<std::string> heard_at_end;

    [[nodiscard]] const std::string& uid() const { return pod.object.uid; }
    [[nodiscard]] bool bound() const { return !pod.node.empty(); }
    // It wants its slices, or uses them.
    [[nodiscard]] bool lives() const { return !gone && !pod.ended && !pod.deleting; }
    [[nodiscard]] std::string claim_key() const { return pod.object.space + "/" + pod.claim; }
  };

  // What a pod was given, wherever that stands.
  struct Given {
    const Allocation* allocation;
    std::string uid;          // under which its node holds it
    bool reserved = false;    // kube-scheduler has committed itself
    const ClaimFacts* claim;  // null: it stands in the pod, and cannot be taken back
  };

  // Slices that no pod's job explains: of claims without a pod of ours, and of nodes that have not
  // let go yet.
  struct Holding {
    std::string space;
    std::string node;
    std::vector<model::Slice> slices;
    std::vector<model::JobId> jobs = {};  // one for each
  };
  // A pod that ran went without a word (a forced delete): its node has to be heard of once.
  struct Lingering {
    std::string heartbeat;  // as it was when the word of its end came
    Holding holding;
  };

  struct InFlight {
    ActionKind kind;
    std::string uid;  // of the pod
    Action action;    // of actions on claims
  };

  explicit ClusterQueue(Options options);

  // cluster_queue.cc: documents
  [[nodiscard]] Status see_pod(const boost::json::object& object);
  [[nodiscard]] Status see_claim(const boost::json::object& object);
  [[nodiscard]] Status see_gpu_node(const boost::json::object& object);
  [[nodiscard]] Status see_node(const boost::json::object& object);
  [[nodiscard]] Status see_namespace(const boost::json::object& object);
  void pod_gone(const std::string& key, const std::string& uid);
  void claim_gone(const std::string& key, const std::string& uid);
  void note_end(Work& work) const;
  void touch(const std::string& uid) { dirty_.insert(uid); }
  void touch_waiting();
  void touch_placed(const std::string& node);
  void wake(const Work& work, WallTime at) { timers_.emplace(at, work.uid()); }

  // cluster_queue_by_hand.cc: claims that others made, and the pods that refer to them
  void see_referring(PodFacts facts);
  void forget_referring(const std::string& key);
  void find_speaker(const std::string& claim_key);

  // cluster_queue_settle.cc: one pod, as its documents have it
  [[nodiscard]] Work* find(const std::string& uid);
  [[nodiscard]] const ClaimFacts* claim_of(const Work& work) const;
  [[nodiscard]] bool is_answered(const Work& work) const;
  void settle(Work& work, WallTime now);
  void found_allocation(Work& work, const Given& given, WallTime now);
  void lost_allocation(Work& work, WallTime now);
  void write_place(Work& work, const ClaimFacts* claim, WallTime now);
  void clear_place(Work& work, const ClaimFacts& claim);
  // The GPU that failed under a pod, and why; nothing: none did.
  [[nodiscard]] std::optional<std::string> failed_gpu(const Work& work) const;
  void evict(Work& work, const std::string& why, WallTime now);
  void release_gates(WallTime now);
  void emit(ActionKind kind, const std::string& uid, std::string path, boost::json::value body);
  void claim_done(Work& work, InFlight& flight, const Result<boost::json::object>& result,
                  WallTime now);
  void pod_done(Work& work, const InFlight& flight, const Result<boost::json::object>& result,
                WallTime now);
  void write_again(Work& work, InFlight& flight, WallTime now);
  [[nodiscard]] bool is_released(std::uint64_t pass) const { return !open_.contains(pass); }
  void leave_planned(Work& work);

  // cluster_queue_slots.cc: where what a pod was given stands, and pods in which it does
  [[nodiscard]] std::optional<Given> given_to(const Work& work) const;
  void place_pod(Work& work, WallTime now);
  void place_done(Work& work, InFlight& flight, const Result<boost::json::object>& result,
                  WallTime now);
  void watch_pinned(Work& work, WallTime now);

  // cluster_queue_jobs.cc: pods as jobs, and the fleet
  void submit(Work& work, WallTime now);
  void adopt(Work& work, WallTime now);
  void end_job(Work& work, WallTime now);
  void refuse_start(Work& work, const std::string& why, WallTime now);
  [[nodiscard]] model::JobSpec spec_for(Work& work, WallTime now);
  [[nodiscard]] std::string queue_of(const std::string& space, const std::string& wanted) const;
  void settle_holdings(WallTime now);
  void drop(Holding& holding, WallTime now);
  void take(Holding& holding, WallTime now);
  void count_overbooked(WallTime now);
  void update_fleet(WallTime now);
  void carry(const std::vector<jobs::Decision>& decisions, WallTime now);
  [[nodiscard]] std::string new_device();

  // cluster_queue_tell.cc: what people are told
  void tell_due(WallTime now);
  void tell_soon(const Work& work, WallTime at) { to_tell_.emplace(at, work.uid()); }
  void set_condition(Work& work, bool placed, std::string_view reason, std::string message,
                     WallTime now);
  void tell_event(const Work& work, std::string_view type, std::string_view reason,
                  const std::string& message, WallTime now);
  [[nodiscard]] PodReport report(const Work& work, WallTime now, bool guess);

  Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<jobs::Queue> queue_;
  model::JobId next_job_{1};
  std::uint64_t next_number_ = 1;
  std::uint64_t pass_ = 0;

  std::map<std::string, Work> works_;                   // by uid of the pod
  std::unordered_map<std::string, std::string> uids_;   // of pods, by namespace and name
  std::unordered_map<std::string, ClaimFacts> claims_;  // by namespace and name
  GpuNodes gpu_nodes_;
  Nodes nodes_;
  std::map<std::string, NamespaceFacts> namespaces_;
  // Pods that refer to claims which we did not make, by namespace and name; and by claim, in the
  // order in which they came.
  std::unordered_map<std::string, PodFacts> referring_;
  std::unordered_map<std::string, std::set<std::pair<WallTime, std::string>>> referrers_;
  std::set<std::string> named_queues_;        // by namespaces
  std::map<model::JobId, std::string> jobs_;  // uid of the pod
  std::map<std::string, Holding> holdings_;   // by uid of the claim and node
  std::map<std::string, Lingering> lingering_;
  Overbooked overbooked_;
  std::set<std::string> known_silent_;  // nodes, as the queue was told

  std::set<std::string> dirty_;  // pods to settle
  std::set<std::pair<WallTime, std::string>> timers_;
  std::set<std::pair<WallTime, std::string>> to_tell_;
  WallTime telling_rests_;
  std::set<std::string> gated_;                // placed, and the gate is still there
  std::map<std::uint64_t, std::size_t> open_;  // passes, and how many of their places are planned
  std::vector<model::Job> adopted_;            // to be restored together
  std::vector<std::string> to_submit_;
  bool holdings_changed_ = false;
  bool fleet_changed_ = false;
  bool pass_due_ = false;
  std::unordered_map<std::uint64_t, InFlight> in_flight_;
  std::vector<Action> actions_;
};

}  // namespace divvy::kube
