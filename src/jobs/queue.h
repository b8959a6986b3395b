// The queue: which job starts where and when, and which one has to stop. It knows every job that
// has not ended, the fleet and the rules, and answers with decisions; it does nothing itself.
//
// Pure: no clock, no I/O, no thread. Time is wall time that the caller gives (it has to mean the
// same after a restart); the same calls give the same decisions. Whatever happens is told with an
// event, then pass() decides. A decision and every event change jobs: the caller writes those that
// take_changes() names down before it acts. Everything that matters is in the jobs themselves, so
// that restore() on a new Queue goes on where a crash ended the old one.
//
// The work is done by its parts, each with its own state: the book of jobs, what they hold, the
// attempts to run them, the places that are kept. A pass and the questions (room.h, wait_report.h,
// moves.h, load.h) see them through a QueueView. This class joins them. Called by one thread (of
// the daemon).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jobs/attempts.h"
#include "jobs/decision.h"
#include "jobs/explain.h"
#include "jobs/fair_share.h"
#include "jobs/fleet_view.h"
#include "jobs/growth.h"
#include "jobs/holdings.h"
#include "jobs/job_book.h"
#include "jobs/moves.h"
#include "jobs/queue_tree.h"
#include "jobs/queue_view.h"
#include "jobs/reservations.h"
#include "jobs/settings.h"
#include "jobs/shapes.h"
#include "jobs/snapshot.h"
#include "jobs/tally.h"
#include "model/job.h"

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
  // A pod of a gang has let go while the others go on: what it held is free.
  void member_left(model::JobId job, std::uint32_t attempt, std::uint32_t rank, WallTime now);
  // Of two jobs of pods that run, the members of the second are the first one's from now on, and
  // the second is not known any more. Answers with their ranks there, in the order that they had.
  [[nodiscard]] std::vector<std::uint32_t> join(model::JobId job, model::JobId other, WallTime now);
  // It was stopped where it was and started where it is now, without an end of its job. Refused:
  // the job does not run, or the new place is not free.
  [[nodiscard]] Status member_moved(const Move& move, WallTime now);
  // Other slices on the GPUs that it has, for a job that Divvy did not start. Refused: more than is
  // free, or than its queue and its user may have.
  [[nodiscard]] Status resize(model::JobId job, std::vector<model::Slice> slices,
                              const std::string& by, WallTime now);
  // A job that waits starts there with the next pass, before anybody whose turn it is; where it
  // cannot by then, it waits like everybody.
  void give_place(model::JobId job, std::span<const model::JobMember> place);
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
  [[nodiscard]] WaitReport explain(model::JobId job, WallTime now) const;
  // The same without the guess when it starts, which takes the longest.
  [[nodiscard]] WaitReport why_it_waits(model::JobId job, WallTime now) const;
  // Which few moves of running members would make a job fit that waits, one after the other; none:
  // it fits as things are. Nothing where no few moves help. Nobody is moved who may not be evicted.
  // Refused: a job that does not wait for a place. What is decided is up to the caller: it moves
  // them, tells of each (member_moved), and the next pass starts the job.
  [[nodiscard]] Result<std::optional<MovePlan>> plan_moves(model::JobId job, std::size_t most,
                                                           WallTime now,
                                                           const MayMove& may_move = {}) const;
  [[nodiscard]] FreeRoom free_room() const;
  // Which nodes of these kinds would have to be added for those to start who wait for room.
  [[nodiscard]] Growth plan_growth(std::span<const NodeKind> kinds, GrowthLimits limits = {}) const;
  // The place that is kept for a job that waits; null where none is, and where others may still
  // pass it. Valid as long as find().
  [[nodiscard]] const place::Reservation* reservation(model::JobId job, WallTime now) const;
  // Those who could start, in the order in which they would if each found its place.
  [[nodiscard]] std::vector<model::JobId> order() const;
  // How many that are.
  [[nodiscard]] std::size_t waiting() const { return book_.line().size(); }
  // From the warning on: how long until it is ended for not using its GPU.
  [[nodiscard]] std::optional<Seconds> idle_left(model::JobId job, WallTime now) const;
  [[nodiscard]] std::vector<QueueReport> queues() const;
  [[nodiscard]] std::vector<UserReport> users() const;
  // How everything stands, and what happened so far, for monitoring.
  [[nodiscard]] Load load(WallTime now) const;
  // What another queue needs to go on from here, with at most so many of those who wait.
  [[nodiscard]] Snapshot snapshot(std::size_t most_waiting) const;
  // For tests: how many entries its tables have.
  [[nodiscard]] std::size_t entries_kept() const;
  // To be written down now and then, for restore().
  [[nodiscard]] std::vector<UsageRow> usage() const { return shares_.rows(tree_); }

 private:
  explicit Queue(Settings settings);

  [[nodiscard]] QueueView view() const;
  Entry& insert(model::Job&& job);
  // It leaves the line, and the place that is kept for it.
  void dequeue(Entry& entry);
  // Everything that was taken on the old fleet is taken on the new one.
  void resettle();
  void give_shapes();

  Settings settings_;
  QueueTree tree_;
  FairShare shares_;
  FleetView fleet_;
  Shapes shapes_{fleet_};
  JobBook book_;
  Holdings holdings_{fleet_, tree_};
  Attempts attempts_{book_, holdings_, fleet_, tree_};
  Reservations reservations_{settings_};
};

}  // namespace divvy::jobs
