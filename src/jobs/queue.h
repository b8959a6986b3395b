// The queue: which job starts where and when, and which one has to stop. It knows every job that
// has not ended, the fleet and the rules, and answers with decisions; it does nothing itself.
//
// Pure: no clock, no I/O, no thread. Time is wall time that the caller gives (it has to mean the
// same after a restart); the same calls give the same decisions. Whatever happens is told with an
// event, then pass() decides. A decision and every event change jobs: the caller writes those that
// take_changes() names down before it acts. Everything that matters is in the jobs themselves, so
// that restore() on a new Queue goes on where a crash ended the old one.
//
// Called by one thread (of the daemon).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "jobs/decision.h"
#include "jobs/dependencies.h"
#include "jobs/explain.h"
#include "jobs/fair_share.h"
#include "jobs/fleet_view.h"
#include "jobs/idle.h"
#include "jobs/job_line.h"
#include "jobs/queue_tree.h"
#include "jobs/settings.h"
#include "jobs/tally.h"
#include "model/job.h"
#include "place/reserve.h"

namespace divvy::jobs {

class Queue {
 public:
  // Refused: settings that do not pass check().
  [[nodiscard]] static Result<std::unique_ptr<Queue>> create(Settings settings);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // --- What is there ---

  [[nodiscard]] Status set_fleet(const Fleet& fleet);
  [[nodiscard]] Status set_settings(Settings settings);
  [[nodiscard]] const Settings& settings() const { return settings_; }

  // Once, after set_fleet: every job that has not ended, what was used, and the ended jobs that any
  // of these wait for. Jobs that were being stopped are told to stop once more.
  [[nodiscard]] Status restore(std::vector<model::Job> jobs, std::span<const UsageRow> usage,
                               std::span<const FinishedJob> finished, WallTime now);

  // --- Events ---

  // What its queue adds to a job that does not say it itself: a time limit.
  [[nodiscard]] model::JobSpec with_defaults(model::JobSpec spec) const;
  // Could it be submitted? Refused: an unknown queue, a job to wait for that is not known, more
  // than it may ever have. `finished` are ended jobs that it waits for and that were forgotten
  // here.
  [[nodiscard]] Status check(const model::JobSpec& spec, const std::string& owner,
                             std::span<const FinishedJob> finished = {});
  // A new job, queued, that passed check() and is written down.
  void submit(model::Job job, WallTime now, std::span<const FinishedJob> finished = {});
  // Of a job that waits and that nobody was told of: as if it had never been submitted.
  void withdraw(model::JobId job);
  // `by` is for the history: "cancelled by ada".
  [[nodiscard]] Status cancel(model::JobId job, const std::string& by, WallTime now);
  [[nodiscard]] Status suspend(model::JobId job, const std::string& by, WallTime now);
  [[nodiscard]] Status resume(model::JobId job, const std::string& by, WallTime now);
  // Of a job that has not ended. Refused: what its queue does not allow.
  [[nodiscard]] Status set_priority(model::JobId job, std::int32_t priority, const std::string& by,
                                    WallTime now);

  // `edit` makes what it is to be from what it is. Refused: a job that has ended, what a new job of
  // that kind would be refused for, and another queue or size for one that holds GPUs.
  using Edit = std::function<Result<model::JobSpec>(const model::JobSpec&)>;
  [[nodiscard]] Status update(model::JobId job, const Edit& edit, const std::string& by,
                              WallTime now);
  // Takes it from its GPUs, without counting a failure, and queues it again.
  [[nodiscard]] Status requeue(model::JobId job, const std::string& by, WallTime now);

  // Of the attempt that was decided; news of another attempt are ignored.
  void member_started(model::JobId job, std::uint32_t attempt, std::uint32_t rank, WallTime now);
  void member_ended(model::JobId job, std::uint32_t attempt, std::uint32_t rank,
                    model::MemberEnd end, WallTime now);
  // No member of the attempt lives or ever will. Refused: somebody else took the place, which is no
  // fault of the job. Failed: it counts against the retries.
  void start_refused(model::JobId job, std::uint32_t attempt, const std::string& why, WallTime now);
  void start_failed(model::JobId job, std::uint32_t attempt, const std::string& why, WallTime now);
  // It was stopped where it was and started where it is now, without an end of its job. Refused:
  // the job does not run, or the new place is not free.
  [[nodiscard]] Status member_moved(const Move& move, WallTime now);
  // Other slices on the GPUs that it has, for a job that Divvy did not start. Refused: more than is
  // free, or than its queue and its user may have.
  [[nodiscard]] Status resize(model::JobId job, std::vector<model::Slice> slices,
                              const std::string& by, WallTime now);
  // It was seen at work on its GPU.
  void used(model::JobId job, WallTime at);
  // An ended job that was written down need not be kept here.
  void forget(model::JobId job);

  // --- Decisions ---

  [[nodiscard]] std::vector<Decision> pass(WallTime now);
  // When a pass is due though nothing happens; nothing: not before something does.
  [[nodiscard]] std::optional<WallTime> next_pass(WallTime now) const;
  // Jobs that changed since the last call, in the order of their numbers.
  [[nodiscard]] std::vector<model::JobId> take_changes();

  // --- Questions ---

  // Null when it is not known (any more). Valid until the next call that changes something.
  [[nodiscard]] const model::Job* find(model::JobId job) const;
  [[nodiscard]] WaitReport explain(model::JobId job, WallTime now);
  // The same without the guess when it starts, which takes the longest.
  [[nodiscard]] WaitReport why_it_waits(model::JobId job, WallTime now);
  // Which few moves of running members would make a job fit that waits, one after the other; none:
  // it fits as things are. Nothing where no few moves help. Nobody is moved who may not be evicted.
  // Refused: a job that does not wait for a place. What is decided is up to the caller: it moves
  // them, tells of each (member_moved), and the next pass starts the job.
  [[nodiscard]] Result<std::optional<std::vector<Move>>> plan_moves(model::JobId job,
                                                                    std::size_t most, WallTime now);
  // The place that is kept for a job that waits; null where none is, and where others may still
  // pass it. Valid as long as find().
  [[nodiscard]] const place::Reservation* reservation(model::JobId job, WallTime now) const;
  // Those who could start, in the order in which they would if each found its place.
  [[nodiscard]] std::vector<model::JobId> order() const;
  // How many that are.
  [[nodiscard]] std::size_t waiting() const { return line_.size(); }
  // From the warning on: how long until it is ended for not using its GPU.
  [[nodiscard]] std::optional<Seconds> idle_left(model::JobId job, WallTime now) const;
  [[nodiscard]] std::vector<QueueReport> queues() const;
  [[nodiscard]] std::vector<UserReport> users() const;
  // How everything stands, and what happened so far, for monitoring.
  [[nodiscard]] Load load(WallTime now) const;
  // For tests: how many entries its tables have.
  [[nodiscard]] std::size_t entries_kept() const;
  // To be written down now and then, for restore().
  [[nodiscard]] std::vector<UsageRow> usage() const { return shares_.rows(tree_); }

 private:
  using ShapeId = std::uint32_t;

  // Shapes of jobs that have ended are kept, up to so many: they tell the policy what may come.
  static constexpr std::size_t kMostShapes = 256;

  // Where a queued job waits.
  enum class Waits { kNowhere, kInLine, kLater, kForOthers, kInVain };

  struct Entry {
    explicit Entry(model::Job job_) : job(std::move(job_)) {}

    model::Job job;
    QueueId queue;
    UserId user;
    ShapeId shape = 0;
    Waits waits = Waits::kNowhere;
    Held held;                               // booked while it is active
    std::vector<place::HoldingId> holdings;  // what of it is known to be on the fleet
    std::set<std::uint32_t> started;         // ranks
    std::uint32_t refusals = 0;              // starts in a row that somebody else was in the way of
    std::optional<WallTime> stop_by;         // while it is stopping
    std::optional<place::Reservation> reservation;
    // Since when it has a reservation without a time: from then on others may pass it for a while.
    std::optional<WallTime> head_since;
    bool passed = false;  // that while is over: in its queue it comes before others of its priority
  };

  // What jobs ask for that differ in nothing that placement looks at.
  struct Shape {
    model::JobSpec spec;  // as much of it as counts
    place::Request request;
    // That each member takes at least: thousandths of a GPU, and bytes of its memory.
    std::uint64_t share = 0;
    std::uint64_t memory = 0;
  };

  // A place for which others were told to make way.
  struct Claim {
    std::vector<place::Spot> spots;
    std::vector<model::JobId> victims;
  };

  // What one pass has found out so far.
  struct Round {
    WallTime now;
    place::Outlook outlook;
    std::uint32_t reserved = 0;
    std::uint32_t tries = 0;
    std::uint32_t rooms = 0;
    std::optional<QueueTree> ahead;  // booked_ahead()
    std::set<std::tuple<ShapeId, std::uint32_t, place::Instant>> do_not_fit;
    std::set<std::tuple<ShapeId, QueueId, std::int32_t, std::optional<UserId>>> find_no_room;
  };

  explicit Queue(Settings settings);

  // queue.cc: events
  [[nodiscard]] Entry* entry(model::JobId job);
  [[nodiscard]] Entry* active(model::JobId job, std::uint32_t attempt);
  Entry& insert(model::Job&& job);
  void enqueue(Entry& entry, WallTime now);
  void dequeue(Entry& entry);
  void become(Entry& entry, model::JobState state, WallTime now, std::string reason);
  void finish(Entry& entry, model::JobState state, WallTime now, std::string reason);
  void follow(Entry& entry, WallTime now);
  void resettle();
  void prepare();
  void forget_shapes();
  [[nodiscard]] Shape shape(model::JobSpec spec) const;
  [[nodiscard]] Status check_priority(QueueId queue, std::int32_t priority) const;
  [[nodiscard]] Status check_time_limit(QueueId queue, const model::JobSpec& spec) const;
  // Whether its queue would ever run it.
  [[nodiscard]] Status check_size(const model::JobSpec& spec, const std::string& owner);

  // queue_stop.cc: from a job that holds something to one that does not
  void stop(Entry& entry, model::StopReason reason, WallTime now, std::string text,
            std::optional<model::JobId> makes_way_for = {});
  void restop(Entry& entry, model::StopReason reason, WallTime now, std::string text);
  void stopped(Entry& entry, WallTime now);
  void ended(Entry& entry, WallTime now);
  void failed(Entry& entry, WallTime now, const std::string& why);
  void hold(Entry& entry);
  void take_places(Entry& entry);
  void leave_places(Entry& entry);
  void let_go(Entry& entry);
  void end_overdue(WallTime now);
  void cancel_hopeless(WallTime now);

  // queue_pass.cc: who starts
  void schedule(WallTime now);
  void start_claims(Round& round);
  [[nodiscard]] place::Reservation kept_for(model::JobId job, const Claim& claim,
                                            WallTime now) const;
  [[nodiscard]] bool try_start(Entry& entry, Round& round);
  void start(Entry& entry, std::span<const place::Spot> spots, WallTime now);
  void reserve_for(Entry& entry, const place::Request& request, Round& round,
                   const std::optional<place::Reservation>& before);
  // Those who were passed for as long as may be come before others of their queue and priority.
  void move_up_passed(WallTime now);
  // Whether nobody may use its reservation: its start is known, or it was passed long enough.
  [[nodiscard]] bool is_kept(const Entry& entry, WallTime now) const;
  [[nodiscard]] bool array_is_full(const Entry& entry) const;
  // Whether so many more may wait.
  [[nodiscard]] Status check_waiting(const std::string& owner, std::uint32_t more) const;
  [[nodiscard]] place::Outlook outlook(WallTime now) const;
  [[nodiscard]] place::Request request_for(const Entry& entry) const;
  // A GPU is in one mode at a time: only those that are in its own, or that nobody holds.
  void keep_to_mode(const Entry& entry, place::Request& request) const;
  [[nodiscard]] std::uint32_t members_allowed(const Entry& entry,
                                              const std::optional<QueueTree>& ahead) const;
  [[nodiscard]] std::optional<QueueTree> booked_ahead() const;
  [[nodiscard]] Held held_of(const Entry& entry, std::uint32_t members) const;
  [[nodiscard]] Held held_at(const Entry& entry, std::span<const place::Spot> spots) const;
  [[nodiscard]] ShapeId shape_of(const model::Job& job);

  // queue_room.cc: who makes way
  void make_room(Entry& entry, const place::Request& request, Round& round);
  [[nodiscard]] bool room_is_coming(const Entry& entry, const place::Request& request,
                                    const Round& round);
  [[nodiscard]] bool rests(const Entry& entry);
  [[nodiscard]] std::vector<Entry*> candidates(const Entry& entry, WallTime now);
  [[nodiscard]] bool free_quota(const Entry& entry, std::vector<Entry*>& candidates,
                                std::vector<Entry*>& victims);
  [[nodiscard]] std::optional<std::vector<place::Spot>> plan_room(const Entry& entry,
                                                                  place::Request request,
                                                                  const Round& round,
                                                                  std::vector<Entry*> candidates,
                                                                  std::vector<Entry*>& victims);

  // queue_moves.cc: who goes elsewhere
  [[nodiscard]] std::optional<Move> move_of(model::JobId job, const place::Spot& from,
                                            const place::Spot& to,
                                            std::set<std::uint32_t>& moved) const;
  [[nodiscard]] bool within_limits(std::span<const Move> moves) const;

  // queue_explain.cc
  struct Trial;
  [[nodiscard]] std::vector<QueueLoad> load_of_queues() const;
  [[nodiscard]] WaitReport explain(model::JobId job, WallTime now, bool guess_start);
  [[nodiscard]] WaitReport why(Entry& entry, std::span<const model::JobId> line, Trial& trial,
                               WallTime now);
  [[nodiscard]] std::optional<WallTime> guess(const Entry& entry,
                                              std::span<const model::JobId> line, Trial& trial,
                                              WallTime now);
  [[nodiscard]] std::optional<Seconds> length(const Entry& entry) const;

  Settings settings_;
  QueueTree tree_;
  FairShare shares_;
  FleetView fleet_;
  JobLine line_;
  Dependencies dependencies_;
  IdleWatch idle_;
  Tally tally_;
  std::unordered_map<model::JobId, Entry> jobs_;
  std::set<model::JobId> active_;
  std::size_t active_mps_ = 0;  // of those
  std::set<model::JobId> hopeless_;
  std::set<std::pair<WallTime, model::JobId>> later_;
  std::map<model::JobId, std::uint32_t> array_active_;
  std::map<model::JobId, Claim> claims_;
  std::set<model::JobId> heads_;  // in line, with a reservation
  std::vector<Shape> shapes_;
  std::unordered_map<std::string, ShapeId> shape_ids_;
  std::size_t prepared_for_ = 0;  // shapes that the policy was told of
  std::vector<Decision> decisions_;
  std::set<model::JobId> changed_;
  struct Lengths {
    double sum_s = 0;
    double count = 0;
  };
  std::map<std::pair<QueueId, UserId>, Lengths> lengths_;  // of jobs that succeeded
};

// Refused: a job that Divvy could not start again, because it did not start it. `what` would be
// done to it ("suspended").
[[nodiscard]] Status check_startable(const model::Job& job, std::string_view what);

// "train (31)", or "job 31" for one without a name.
[[nodiscard]] std::string name_of(const model::Job& job);

}  // namespace divvy::jobs
