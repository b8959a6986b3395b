// The controller's mind: pods that ask for slices, their claims and the nodes go in as documents,
// what is to be done at the API server comes out as actions. Every pod with our gate or annotation
// is a job of jobs::Queue, its containers are the members; the pods of a gang are the members of
// one job. What a claim says is allocated is held.
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
#include <deque>
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
#include "kube/capacity_plan.h"
#include "kube/cluster_fleet.h"
#include "kube/cluster_objects.h"
#include "kube/defragmentation.h"
#include "kube/gang.h"
#include "kube/policy_objects.h"
#include "kube/queue_objects.h"

namespace divvy::kube {

enum class ObjectKind { kPod, kClaim, kGpuNode, kNode, kNamespace, kQueue, kPolicy, kCapacityPlan };
inline constexpr std::size_t kObjectKinds = 8;

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
    // Whoever a disruption budget keeps is not asked to make way again for so long.
    Duration spare = std::chrono::minutes(5);
    // How templates of pods are read, where their namespace does not say otherwise.
    DialectPolicy dialects = {};
    // Of nodes: the same value is the same zone or rack.
    TopologyLabels topology = {};
    // What an object says of the size of a gang is read again after so long, while that waits.
    Duration read_again = std::chrono::seconds(10);
    // The condition of a pod that waits is written at most so often, and of so many in a second.
    Duration tell_again = std::chrono::seconds(30);
    std::size_t told_at_once = 8;
    DefragmentationRules defragmentation = {};
    // There are such objects, so one is written (capacity_plan.h).
    bool capacity_plans = false;
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
  // The queue as it is, for those who want to know what would become of it.
  [[nodiscard]] jobs::Snapshot snapshot(std::size_t most_waiting) const {
    return queue_->snapshot(most_waiting);
  }
  [[nodiscard]] std::vector<std::string> queue_paths() const;
  [[nodiscard]] std::size_t waiting() const { return queue_->waiting(); }
  [[nodiscard]] std::size_t pods() const { return works_.size(); }
  // What is held on the fleet: by pods' jobs, and by whatever no pod explains.
  struct Booking {
    std::string node;
    std::vector<model::Slice> slices;
  };
  [[nodiscard]] std::map<std::string, Booking> bookings() const;  // by uid of the claim or pod
  // Of this controller, since it leads.
  struct Moves {
    std::uint64_t pods = 0;      // that were evicted to start elsewhere
    std::uint64_t finished = 0;  // plans after which somebody who waited got their place
    std::uint64_t given_up = 0;  // plans that were not carried out to the end
    bool under_way = false;      // a pod is being moved
  };
  [[nodiscard]] Moves moves() const;
  // What would be moved for whom, or is; nothing: there is no such plan.
  [[nodiscard]] const std::optional<PlannedMoves>& planned_moves() const { return planned_; }
  // Nodes that would have to be added, by their kind.
  [[nodiscard]] const std::map<std::string, std::uint32_t>& nodes_wanted() const {
    return nodes_wanted_;
  }
  // What is free, and in what pieces.
  [[nodiscard]] jobs::FreeRoom free_room() const { return queue_->free_room(); }
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
    model::JobId job;                       // of every stage but kIdle
    std::vector<std::uint32_t> ranks = {};  // of its members in that job
    std::string gang = {};                  // key of its gang; empty: it stands alone
    bool joins = false;               // its gang runs already, or is none: it is placed by itself
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
    std::string leaves = {};                         // why it has to go; empty: it has not
    bool lingers = false;                            // it has gone, and its node has not let go yet
    bool seen_held = false;                          // by its node, since then
    std::optional<std::string> heartbeat_then = {};  // of its node, likewise
    WallTime spared_until;         // it does not make way for anybody; nothing: it may
    std::string not_written = {};  // by slots: why the last place was not written
    bool told_stuck = false;       // by slots: that kube-scheduler does not take it where it is
    std::map<std::string, WallTime> avoided;  // nodes, and until when
    std::uint32_t refusals = 0;               // places in a row that were not taken
    std::optional<WallTime> not_before;
    std::string refusal;           // why it is not in the queue
    bool gang_is_missing = false;  // because others of its gang are not there
    bool condition_busy = false;
    bool told_queued = false;
    bool told_wanted = false;   // that a node would have to be added
    std::string moves = {};     // what is moved for it, or would have to be
    WallTime moves_not_before;  // nobody is moved for it before that
    std::string bound_when_queued;
    // The heartbeat of its node when the word came that it ended or is gone.
    std::optional<std::string> heard_at_end;
    std::optional<WallTime> cleared;  // when it was seen bound, alive and without its allocation

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
    std::string queue = {};               // empty: that of its namespace
  };
  // A pod that ran went without a word (a forced delete): its node has to be heard of once.
  struct Lingering {
    std::string heartbeat;  // as it was when the word of its end came
    Holding holding;
  };

  // A pod that is moved for one that waits: it is evicted, and whoever owns it makes a successor,
  // which starts where there is room for it. Both places are kept meanwhile.
  struct PodMove {
    explicit PodMove(model::JobSpec spec_) : spec(std::move(spec_)) {}

    enum class Step {
      kLeaving,   // the pod has not let go yet
      kArriving,  // its successor has no place yet
      kStarting,  // it has, and does not run yet
    };
    Step step = Step::kLeaving;
    model::JobId job = {};       // that waits
    std::string first = {};      // uid of its first pod
    std::uint32_t made = 1;      // moves of the plan, this one included
    std::uint32_t left = 0;      // that it may still make
    std::string pod = {};        // uid of the one that is moved
    std::string name = {};       // "team-a/web-0"
    model::JobId pod_job = {};   // its job
    std::string space = {};      // its namespace
    std::string owner = {};      // uid of who makes its successor
    model::JobSpec spec;         // its own, which its successor has to be like
    model::JobMember to = {};    // where its successor goes
    std::string successor = {};  // uid; empty: it has not come
    WallTime began = {};
    WallTime due = {};                         // of the step
    std::vector<model::JobMember> place = {};  // of the job that waits, afterwards
    std::vector<Holding> kept_for_job = {};
    std::optional<Holding> kept_for_successor = {};
  };

  struct InFlight {
    ActionKind kind;
    std::string uid;  // of the pod, or the key of a gang, or the name of a queue
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
  enum class Reservation { kNone, kToo };  // there is none, or it goes with the allocation
  void clear_place(Work& work, const ClaimFacts& claim,
                   Reservation reservation = Reservation::kNone);
  // The GPU that failed under a pod, and why; nothing: none did.
  [[nodiscard]] std::optional<std::string> failed_gpu(const Work& work) const;
  void release_gates(WallTime now);
  void emit(ActionKind kind, const std::string& uid, std::string path, boost::json::value body);
  void claim_done(Work& work, InFlight& flight, const Result<boost::json::object>& result,
                  WallTime now);
  void pod_done(Work& work, const InFlight& flight, const Result<boost::json::object>& result,
                WallTime now);
  void write_again(Work& work, InFlight& flight, WallTime now);
  [[nodiscard]] bool is_released(std::uint64_t pass) const { return !open_.contains(pass); }
  [[nodiscard]] bool may_have_ended(Work& work, WallTime now);
  void leave_planned(Work& work);

  // cluster_queue_slots.cc: where what a pod was given stands, and pods in which it does
  [[nodiscard]] std::optional<Given> given_to(const Work& work) const;
  void place_pod(Work& work, WallTime now);
  void place_done(Work& work, InFlight& flight, const Result<boost::json::object>& result,
                  WallTime now);
  void watch_pinned(Work& work, WallTime now);

  // cluster_queue_preempt.cc: pods that have to go
  struct Leaving {
    bool for_others = false;
    std::set<std::string> to_ask = {};  // pods of which it is not known yet whether they may go
  };
  [[nodiscard]] std::string name_of(model::JobId job);
  void stop(const jobs::Stop& stop, WallTime now);
  void leave(Work& work, const std::string& why, WallTime now);
  void evict(Work& work, const std::string& why, WallTime now);
  void eviction_done(Work& work, const InFlight& flight, const Result<boost::json::object>& result,
                     WallTime now);
  void spare(model::JobId job, const std::string& why, WallTime now);
  void adopt_again(WallTime now);
  [[nodiscard]] bool may_make_way(const Work& work) const;
  [[nodiscard]] bool has_let_go(Work& work) const;

  // cluster_queue_moves.cc: pods that are moved so that one that waits fits
  [[nodiscard]] bool is_movable(const Work& work, WallTime now);
  [[nodiscard]] Result<std::optional<jobs::MovePlan>> plan_for(model::JobId job, std::uint32_t most,
                                                               WallTime now);
  [[nodiscard]] PlannedMoves in_words(model::JobId job, const jobs::MovePlan& plan);
  [[nodiscard]] std::uint32_t moves_left_this_hour(WallTime now);
  void look_for_moves(WallTime now);
  [[nodiscard]] bool begin_move(model::JobId job, const jobs::MovePlan& plan, std::uint32_t made,
                                std::uint32_t left, WallTime now);
  void go_on_moving(WallTime now);
  [[nodiscard]] bool has_left(WallTime now);
  [[nodiscard]] bool has_started(WallTime now);
  void next_move(const std::string& why_not, WallTime now);
  void give_up_moves(const std::string& why, WallTime now);
  void end_moves(WallTime now);
  [[nodiscard]] std::optional<model::Slice> left_of(const std::string& node,
                                                    const model::Slice& slice) const;
  void keep_places(WallTime now);
  void give_up_places(WallTime now);
  void arrived(const Work& work, WallTime now);
  void tell_moves(model::JobId job, const std::string& text, WallTime now);

  // cluster_queue_queues.cc: queues that are objects
  [[nodiscard]] Status see_queue(const boost::json::object& object);
  void queue_gone(const ObjectFacts& object);
  void settle_queues();
  void tell_queues(WallTime now);
  void queue_done(const std::string& name, const Result<boost::json::object>& result, WallTime now);

  // cluster_queue_policies.cc: policies of namespaces
  [[nodiscard]] Status see_policy(const boost::json::object& object);
  void policy_gone(const ObjectFacts& object);
  [[nodiscard]] DialectPolicy dialects_of(const std::string& space) const;
  [[nodiscard]] bool is_movable_in(const std::string& space) const;
  void tell_policies(WallTime now);
  void policy_done(const std::string& name, const Result<boost::json::object>& result,
                   WallTime now);

  // cluster_queue_capacity.cc: what is told of the cluster as a whole
  [[nodiscard]] Status see_capacity_plan(const boost::json::object& object);
  void capacity_plan_gone(const ObjectFacts& object);
  [[nodiscard]] std::vector<jobs::NodeKind> node_kinds(WallTime now) const;
  [[nodiscard]] CapacityReport capacity_report(WallTime now);
  void tell_wanted(model::JobId job, const jobs::NodeKind& kind, WallTime now);
  void tell_capacity(WallTime now);
  void capacity_done(const Result<boost::json::object>& result, WallTime now);

  // cluster_queue_gangs.cc: pods that start together
  struct Standing;  // of a gang's pods
  void enter_gang(Work& work);
  void leave_gang(const Work& work);
  void see_other(const std::string& key, const boost::json::object& pod);
  [[nodiscard]] Gang* gang_of(const Work& work);
  // Its gang does not run yet, and it has a place.
  [[nodiscard]] bool in_attempt(const Work& work);
  [[nodiscard]] bool is_committed(const Work& work) const;
  [[nodiscard]] bool may_release(const Work& work);
  void fail_attempt(Gang& gang, const Work& work, const std::string& why, WallTime now);
  void settle_gangs(WallTime now);
  void settle_gang(const std::string& key, Gang& gang, WallTime now);
  [[nodiscard]] Standing look_at(const Gang& gang);
  void go_on(Gang& gang, const Standing& standing, WallTime now);
  void attempt(const std::string& key, Gang& gang, const Standing& standing, WallTime now);
  void take_back(const std::string& key, Gang& gang, WallTime now);
  void line_up(const std::string& key, Gang& gang, Standing& standing, WallTime now);
  void split(const std::string& key);
  void unite(Gang& gang, const std::vector<Work*>& works, WallTime now);
  void dissolve(model::JobId job);
  void read_size(const std::string& key, Gang& gang, WallTime now);
  void size_read(const std::string& key, const Result<boost::json::object>& result, WallTime now);
  void tell_devices(Work& work, std::string_view condition, WallTime now);
  void keep_waiting(const std::vector<Work*>& works, const std::string& why, WallTime now);

  // cluster_queue_gang_jobs.cc: a gang as a job
  [[nodiscard]] Status check_alike(const Gang& gang, const std::vector<Work*>& works) const;
  [[nodiscard]] Result<model::JobSpec> gang_spec(const Gang& gang, const std::vector<Work*>& works,
                                                 WallTime now);
  void submit_gang(Gang& gang, const std::vector<Work*>& works, WallTime now);
  void stay_near(const Gang& gang, const Work& joining, model::JobSpec& spec) const;
  [[nodiscard]] model::Near nearness(const Gang& gang, const Work& first) const;
  [[nodiscard]] std::string place_in(const std::string& node, model::Closeness closeness) const;

  // cluster_queue_jobs.cc: pods as jobs, and the fleet
  void submit(Work& work, WallTime now);
  void adopt(Work& work, WallTime now);
  void end_job(Work& work, WallTime now);
  void take_ranks(Work& work);
  void plan(const jobs::Start& start, WallTime now);
  void refuse_start(Work& work, const std::string& why, WallTime now);
  [[nodiscard]] model::JobSpec spec_for(Work& work, WallTime now);
  [[nodiscard]] std::vector<std::string> tolerated_by(const PodFacts& pod) const;
  [[nodiscard]] std::string queue_of(const std::string& space, const std::string& wanted) const;
  [[nodiscard]] static bool explains(const Work& work, const ClaimFacts& claim);
  void settle_holdings(WallTime now);
  void drop(Holding& holding, WallTime now);
  void take(Holding& holding, WallTime now);
  void count_overbooked(WallTime now);
  void update_fleet(WallTime now);
  void restore_adopted(WallTime now);
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
  std::set<std::string> named_queues_;  // by namespaces
  QueueObjects queue_objects_;
  ComposedQueues composed_;
  bool queues_changed_ = false;
  bool queues_told_ = true;  // in their status
  WallTime telling_queues_rests_;
  std::set<std::string> queues_busy_;
  PolicyObjects policies_;
  bool policies_told_ = true;  // in their status
  WallTime telling_policies_rests_;
  std::set<std::string> policies_busy_;
  std::optional<CapacityPlanObject> capacity_;
  bool capacity_told_ = false;
  bool capacity_busy_ = false;
  WallTime capacity_rests_;
  std::map<std::string, std::uint32_t> nodes_wanted_;
  // Uids of pods by rank; empty: that one has left.
  std::map<model::JobId, std::vector<std::string>> jobs_;
  std::map<model::JobId, Leaving> leaving_;  // those that were told to go
  std::set<model::JobId> to_adopt_again_;
  std::map<std::string, Gang> gangs_;                    // by namespace and the reference's key
  std::unordered_map<std::string, std::string> others_;  // gangs by namespace and name of pods
  std::map<std::string, Holding> holdings_;              // by uid of the claim and node
  std::map<std::string, Lingering> lingering_;
  Overbooked overbooked_;
  std::set<std::string> known_silent_;  // nodes, as the queue was told

  std::set<std::string> dirty_;  // pods to settle
  std::set<std::string> dirty_gangs_;
  std::set<std::pair<WallTime, std::string>> timers_;
  std::set<std::pair<WallTime, std::string>> to_tell_;
  WallTime telling_rests_;
  std::set<std::string> gated_;                // placed, and the gate is still there
  std::map<std::uint64_t, std::size_t> open_;  // passes, and how many of their places are planned
  std::vector<model::Job> adopted_;            // to be restored together
  std::vector<std::string> to_submit_;
  std::optional<PodMove> moving_;
  std::optional<PlannedMoves> planned_;
  model::JobId planned_for_;
  std::deque<WallTime> moved_at_;  // within the last hour
  WallTime look_for_moves_at_;
  std::string last_moved_;  // uid
  Moves moves_;
  bool holdings_changed_ = false;
  bool fleet_changed_ = false;
  bool pass_due_ = false;
  std::unordered_map<std::uint64_t, InFlight> in_flight_;
  std::vector<Action> actions_;
};

}  // namespace divvy::kube
