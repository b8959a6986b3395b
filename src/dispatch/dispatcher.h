// Carries out what the queue decides: writes it down, gives members their slices, starts and ends
// them, and tells the queue what became of it. The line of every job goes through here:
//
//   submit -> store (then it is acknowledged) -> queue decides -> store -> slices -> members run
//          -> a member ends -> slice back -> queue -> store
//
// What is done is written down before it is done, under names that say which attempt it belongs to
// (run/member_key.h). So a daemon that was killed at any moment compares the store, the slices and
// the members by those names and goes on (recovery.h): nothing acknowledged is lost, no attempt is
// started twice.
//
// The methods may be called from any thread. One thread of its own drives the queue; a few more
// start and end members (job_tasks.h). The lock is never held over the runtime, the machine or the
// store, which may block: a member that is stuck keeps nobody from submitting, asking or starting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "dispatch/admission.h"
#include "dispatch/job_tasks.h"
#include "dispatch/machine.h"
#include "jobs/queue.h"
#include "node/timings.h"
#include "run/runtime.h"
#include "store/database.h"
#include "store/event_table.h"
#include "store/submission.h"
#include "store/usage_table.h"

namespace divvy::dispatch {

// As whom the members of somebody's jobs run on this machine.
struct Account {
  MemberUser user;
  std::vector<gid_t> groups;
  run::Account login;
};
using FindAccount = std::function<Result<Account>(const std::string& owner)>;

// What somebody submits.
struct NewJob {
  explicit NewJob(model::JobSpec spec_) : spec(std::move(spec_)) {}

  std::string owner;
  model::JobSpec spec;             // has passed model::check()
  std::optional<std::string> key;  // the caller's, so that a request that comes twice is one
  std::string fingerprint;         // of the request, with a key
};

class Dispatcher {
 public:
  // Who calls step(): a thread of its own, or a test in its own time.
  enum class Drive { kThread, kCaller };

  struct Parts {
    store::Database& database;
    Machine& machine;
    run::Runtime& runtime;
    FindAccount account;
    Clock& clock;
    jobs::Settings settings;
    unsigned starters = 4;  // members that are started at the same time
    Drive drive = Drive::kThread;
  };

  // Finds again what ran before. What `parts` refers to outlives it.
  [[nodiscard]] static Result<std::unique_ptr<Dispatcher>> create(Parts parts);
  // Members run on; the next one finds them.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // --- For the API ---

  // On the disk when it returns.
  [[nodiscard]] Result<store::Submitted> submit(NewJob wanted);
  // Whether it could be submitted, and how it would stand: nothing is changed.
  [[nodiscard]] Status check(const model::JobSpec& asked, const std::string& owner);
  // Likewise on the disk. `by` is who says so.
  [[nodiscard]] Status cancel(model::JobId job, const std::string& by);
  [[nodiscard]] Status suspend(model::JobId job, const std::string& by);
  [[nodiscard]] Status resume(model::JobId job, const std::string& by);
  [[nodiscard]] Status requeue(model::JobId job, const std::string& by);
  [[nodiscard]] Status update(model::JobId job, const jobs::Queue::Edit& edit,
                              const std::string& by);

  // Slices that the caller uses itself (admission.h): spec.holder is kProcess or kSlice. `waits`:
  // until it is its turn. Then, once, when it is ready: its answer. Or give_up(): the caller is
  // gone, or its patience is over.
  [[nodiscard]] Result<std::shared_ptr<Admission>> admit(NewJob wanted, MemberUser user,
                                                         bool waits);
  [[nodiscard]] std::optional<Result<AdmissionAnswer>> answer(
      const std::shared_ptr<Admission>& admission);
  void give_up(const std::shared_ptr<Admission>& admission);
  // What such a job holds is to be this; the machine is the caller's to tell.
  [[nodiscard]] Status resize(model::JobId job, const std::vector<model::Slice>& slices,
                              const std::string& by);
  // Of jobs that name no mode and could have it; the others take turns.
  void set_default_mode(model::GpuMode mode) { default_mode_ = mode; }
  // How many jobs could start and wait for a place.
  [[nodiscard]] std::size_t waiting();

  // As it is now, and on the disk; nothing when it has ended, or never was: the store knows.
  [[nodiscard]] std::optional<model::Job> find(model::JobId job);
  [[nodiscard]] jobs::WaitReport explain(model::JobId job);
  [[nodiscard]] std::optional<model::Seconds> idle_left(model::JobId job);
  [[nodiscard]] std::vector<jobs::QueueReport> queues();
  [[nodiscard]] std::vector<jobs::UserReport> users();
  // For monitoring. Walks over the jobs in memory, and reads nothing from the store.
  [[nodiscard]] jobs::Load load();
  // How long the passes took.
  [[nodiscard]] node::DurationCounts passes() const { return passes_.counts(); }
  [[nodiscard]] Status set_settings(jobs::Settings settings);
  // Called after events were written, on the dispatcher's thread: who watches may look again.
  void on_events(std::function<void()> call);

  // One round: hears what happened, decides, writes down, acts. With Drive::kCaller only.
  void step();
  // For tests: how many entries its tables have.
  [[nodiscard]] std::size_t entries_kept();
  // For tests: until what was decided is done.
  void wait_for_tasks() { tasks_->wait_until_idle(); }

 private:
  explicit Dispatcher(Parts parts);
  [[nodiscard]] model::JobSpec with_defaults(model::JobSpec spec);
  using Change = std::function<Status(jobs::Queue&, WallTime)>;

  // dispatcher.cc: the round
  void run();
  void wake();
  [[nodiscard]] int patience_ms();
  [[nodiscard]] Status change(const Change& change);
  // "train" for /opt/bin/train.py; any program gives a name (model/name.h).
  [[nodiscard]] static std::string job_name(const std::vector<std::string>& command);
  [[nodiscard]] bool may_pass();
  void decide(WallTime now, const jobs::Fleet& fleet);
  void hear_members(const std::vector<run::MemberReport>& reports);
  // A task for each member that has ended; then the queue hears of it.
  void release_ended();
  void release(const run::MemberKey& key);
  void tell_released();
  void stop_again(WallTime now);
  // Everything that changed and was decided since the last time; without the lock while it waits
  // for the disk.
  [[nodiscard]] bool write(std::unique_lock<std::mutex>& lock);
  void act(const jobs::Decision& decision);
  void tell(store::EventRow event);

  // admission.cc: jobs that somebody waits for
  void drop(model::JobId id);
  // Neither the store nor its asker knows of it.
  [[nodiscard]] bool is_unheard_of(model::JobId id) const;
  void withdraw(model::JobId id);
  static void tell(Admission& admission, Result<AdmissionAnswer> answer);
  [[nodiscard]] bool refusals_due() const;
  void refuse_fresh(WallTime now);
  void grant_admitted();
  void grant_slices(const model::Job& job, const model::JobMember& member);
  void answer_admitted();
  void refuse_unstored();
  void holder_gone(const model::MemberKey& key);
  void hear_gone();
  void stop_holder(const model::MemberKey& key, model::Seconds grace);

  // start_work.cc: what the starters do
  struct DeferredStart {
    model::Job job;
    std::vector<model::JobMember> members;
    WallTime due;
  };
  void start_deferred(WallTime now);
  void start(const DeferredStart& wanted);
  // No member of it was started, or those that were are ended first.
  void refuse_start(const model::Job& job, const Error& why,
                    const std::vector<run::MemberKey>& living);
  void tell_refused(model::JobId job, std::uint32_t attempt, const Error& why);
  // What there is of it, unless that is nothing but the beginning of a start.
  [[nodiscard]] Result<std::optional<run::MemberReport>> find_started(const run::MemberKey& key);
  void start_member(const model::Job& job, const model::JobMember& member, const Account& account,
                    const MemberSlice& slice);
  void stop(model::JobId job, std::uint32_t attempt, model::Seconds grace);

  // recovery.cc
  [[nodiscard]] Status recover();
  [[nodiscard]] Status adopt(HeldSlices& held, std::vector<model::Job>& jobs);
  void find_holder(const model::Job& job, const std::set<model::MemberKey>& holding, WallTime now);
  void find_again(const model::Job& job, const std::map<run::MemberKey, run::MemberReport>& members,
                  WallTime now);
  void look_at_doubtful(WallTime now);
  void look_at(const run::MemberKey& key);

  // strays.cc: members that no attempt of a job waits for
  enum class Folder { kKeep, kRemove };
  void add_stray(const run::MemberKey& key, Folder folder);
  [[nodiscard]] bool has_strays(model::JobId job) const;
  void end_strays(WallTime now);
  void end_stray(const run::MemberKey& key, Folder folder);
  // Success: nothing of it is left.
  [[nodiscard]] Status try_to_end(const run::MemberKey& key, Folder folder);

  // use_book.cc: what was held and used
  struct Held {
    WallTime since;   // until then it is in the books
    double used = 0;  // since then, thousandths of a GPU times seconds
  };
  [[nodiscard]] bool count_due(WallTime now) const;
  void count_use(WallTime now, const std::vector<MemberActivity>& activities);
  void book(const model::Job& job, WallTime now);
  void book_cpu(const model::Job& job, const run::MemberKey& key, const model::MemberEnd& end,
                WallTime now);

  // As a job without a mode of its own is to be run.
  [[nodiscard]] model::GpuMode mode_for(const model::JobSpec& spec) const;

  Parts parts_;
  std::atomic<model::GpuMode> default_mode_ = model::GpuMode::kTimeslice;
  UniqueFd bell_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable written_;
  std::unique_ptr<jobs::Queue> queue_;
  model::JobId next_id_;             // numbers are given here, not by the store
  std::set<model::JobId> unstored_;  // the store has no row of them yet
  std::map<model::JobId, std::shared_ptr<Admission>> admissions_;  // without an answer
  std::vector<model::MemberKey> gone_;                             // and the queue does not know
  std::uint64_t changes_ = 0;                                      // that were made in the queue
  std::uint64_t changes_written_ = 0;                              // of those
  Status last_write_;
  std::set<model::JobId> unwritten_;
  std::set<model::JobId> in_writing_;                 // just now, without the lock
  std::map<model::JobId, std::size_t> steps_told_;    // of its history, as events
  std::vector<jobs::Decision> decided_;               // and not written, or not begun
  std::map<run::MemberKey, model::MemberEnd> ended_;  // and the queue does not know yet
  std::set<run::MemberKey> releasing_;                // of those: a task gives the slice back
  std::vector<run::MemberKey> released_;              // of those: the slice is free
  // Jobs that are to start: as soon as no stray of the job is left, and not before they are due.
  std::map<model::JobId, DeferredStart> deferred_;
  // Members that are ended, again and again until nothing of them is left.
  struct Stray {
    Folder folder = Folder::kKeep;
    bool busy = false;  // a task is at it
    WallTime due;       // not before
  };
  std::map<run::MemberKey, Stray> strays_;
  // Starts that were refused while members of the attempt lived, which are strays now.
  struct RefusedStart {
    std::uint32_t attempt;
    Error why;
  };
  std::map<model::JobId, RefusedStart> refused_;
  std::map<run::MemberKey, WallTime> doubtful_;  // could not be looked at; when to try again
  struct Order {
    std::uint32_t attempt;
    model::Seconds grace;
    WallTime due;
  };
  std::map<model::JobId, Order>
      untold_;  // members that could not be told to end, and when to retry
  std::map<model::JobId, Held> books_;
  std::vector<store::UsageRow> unbooked_;
  WallTime counted_;
  std::chrono::steady_clock::time_point rested_;  // from the last pass
  bool pass_due_ = false;
  node::Timings passes_;
  std::function<void()> on_events_;
  bool stopping_ = false;
  std::unique_ptr<JobTasks> tasks_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace divvy::dispatch
