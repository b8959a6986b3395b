// Carries out what the queue decides: writes it down, gives members their slices, starts and ends
// them, and tells the queue what became of it. The line of every job goes through here:
//
//   submit -> store (then it is acknowledged) -> queue decides -> store -> slices -> members run
//          -> a member ends -> slice back -> queue -> store
//
// What is done is written down before it is done, under names that say which attempt it belongs to
// (model/member_key.h). So a daemon that was killed at any moment compares the store and what each
// machine has by those names and goes on (recovery.cc): nothing acknowledged is lost, no attempt is
// started twice.
//
// Everything on a machine is done through its agent (agent/agent.h), without waiting: what follows
// from an answer is the rest of a task (task.h). The methods may be called from any thread; one
// thread of its own drives the queue. The lock is never held over the store or a machine: one that
// is stuck keeps nobody from submitting, asking or starting elsewhere.
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

#include "agent/agents.h"
#include "agent/workers.h"
#include "base/clock.h"
#include "base/timings.h"
#include "base/unique_fd.h"
#include "control/admission.h"
#include "control/secrets.h"
#include "control/task.h"
#include "jobs/queue.h"
#include "store/database.h"
#include "store/event_table.h"
#include "store/submission.h"
#include "store/usage_table.h"

namespace divvy::control {

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
    const agent::Agents& agents;
    Clock& clock;
    jobs::Settings settings;
    Drive drive = Drive::kThread;
    Secrets* secrets = nullptr;  // without: jobs that want some are refused
    // Whether messages about a job are sent to this webhook; without: they are refused.
    std::function<Status(const model::Notify&)> check_notify{};
    std::function<void()> on_notification{};  // one was written down; on the dispatcher's thread
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
  // Whether it could be submitted: nothing is changed. Asks a machine whether it could run there.
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
  [[nodiscard]] Result<std::shared_ptr<Admission>> admit(NewJob wanted, agent::LocalCaller caller,
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
  // What percent of its shares a job with one member uses just now; nothing where it has none, or
  // nobody has measured it yet.
  [[nodiscard]] std::optional<std::uint32_t> use_of_share(model::JobId job);
  [[nodiscard]] std::vector<jobs::QueueReport> queues();
  [[nodiscard]] std::vector<jobs::UserReport> users();
  // For monitoring. Walks over the jobs in memory, and reads nothing from the store.
  [[nodiscard]] jobs::Load load();
  // The queue as a value, for those who want to know what would become of it.
  [[nodiscard]] jobs::Snapshot snapshot(std::size_t most_waiting);
  // How long the passes took.
  [[nodiscard]] DurationCounts passes() const { return passes_.counts(); }
  [[nodiscard]] Status set_settings(jobs::Settings settings);
  // Called after events were written, on the dispatcher's thread: who watches may look again.
  void on_events(std::function<void()> call);

  // One round: hears what happened, decides, writes down, acts. With Drive::kCaller only.
  void step();
  // For tests: how many entries its tables have.
  [[nodiscard]] std::size_t entries_kept();
  // For tests: until every machine has answered.
  void wait_for_replies() { replies_->wait_until_idle(); }

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
  // A task for each member that has ended; then the queue hears of it.
  void release_ended();
  Task release(model::MemberKey key, std::string node);
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
  // It does not wait, and whether it fits is not known yet.
  [[nodiscard]] bool may_be_refused(model::JobId id) const;
  void refuse_fresh(WallTime now);
  void reap();
  void grant_admitted();
  Task grant_slices(model::Job job, model::JobMember member);
  void answer_admitted();
  void refuse_unstored();
  void hear_gone();
  // Told first, killed when its grace is over, for as long as it takes.
  Task stop_holder(model::JobId job, std::uint32_t attempt, model::Seconds grace);

  // machines.cc: what the agents say, and asking them
  struct Machine {
    std::string node;
    agent::MachineState state = {};
    bool reachable = true;
    WallTime counted = {};  // until then it has said what its members use
    bool counts = false;    // asked, and no answer yet
    bool is_new = false;    // came back: what it has is to be compared
  };
  [[nodiscard]] Status check_machines(const agent::CheckOrder& order);
  [[nodiscard]] Status check_secrets(const model::JobSpec& spec, const std::string& owner);
  [[nodiscard]] Status check_notify(const model::Notify& notify);
  void hear(const std::string& node, agent::News news);
  [[nodiscard]] jobs::Fleet fleet() const;
  [[nodiscard]] Machine* find_machine(const std::string& node);
  [[nodiscard]] std::vector<std::string> hosts_of(const model::Job& job) const;
  template <typename One>
  [[nodiscard]] AskedOne<One> ask(const std::string& node, One order) {
    return AskedOne<One>(replies_, parts_.agents.find(node), std::move(order));
  }
  template <typename One>
  [[nodiscard]] Asked<One> ask_all(std::vector<std::pair<std::string, One>> orders) {
    std::vector<typename Asked<One>::To> to;
    to.reserve(orders.size());
    for (auto& [node, order] : orders) {
      to.push_back({parts_.agents.find(node), std::move(order)});
    }
    return Asked<One>(replies_, std::move(to));
  }
  void count_activity();
  void compare_returned();
  Task compare(std::string node);
  // Of the owner of a job, for its start: read from the store without the lock.
  struct Owner {
    agent::UserName user;        // as whom it runs
    agent::Environment secrets;  // what the variables of spec.secrets hold
  };
  class ReadOwner;
  [[nodiscard]] ReadOwner read_owner(const model::Job& job);

  // start_work.cc: what the starters do
  struct DeferredStart {
    model::Job job;
    std::vector<model::JobMember> members;
    WallTime due;
  };
  // A member and its machine.
  struct Where {
    model::MemberKey key;
    std::string node;
  };
  void start_deferred(WallTime now);
  Task start(DeferredStart wanted);
  // No member of it was started, or those that were are ended first.
  void refuse_start(const model::Job& job, const Error& why, const std::vector<Where>& living);
  void tell_refused(model::JobId job, std::uint32_t attempt, const Error& why);
  void tell_not_started(const model::MemberKey& key, const std::string& node, const Error& why);
  void add_stop(model::JobId job, std::uint32_t attempt, model::Seconds grace);
  Task stop(model::JobId job, std::uint32_t attempt, model::Seconds grace);
  // Those of its members that have not ended and are no strays; of strays it is told that they
  // have.
  [[nodiscard]] std::vector<Where> members_to_stop(const model::Job& job,
                                                   const model::MemberEnd& not_started);
  void stop_later(model::JobId job, std::uint32_t attempt, model::Seconds grace,
                  const Where& member, const Error& why);

  // recovery.cc
  using Members = std::map<model::MemberKey, model::MemberReport>;
  struct Held {
    std::string node;
    agent::HeldSlices slices;
  };
  [[nodiscard]] Status recover();
  [[nodiscard]] Status adopt(Held& held, std::vector<model::Job>& jobs);
  void find_holder(const model::Job& job, const std::set<model::MemberKey>& holding, WallTime now);
  void find_again(const model::Job& job, const Members& members, WallTime now);
  void find_member(const model::Job& job, const model::JobMember& member, const Members& members,
                   WallTime now);
  void look_at_doubtful(WallTime now);
  Task look_at(model::MemberKey key, std::string node, std::string why);

  // strays.cc: members that no attempt of a job waits for
  enum class Folder { kKeep, kRemove };
  void add_stray(const model::MemberKey& key, const std::string& node, Folder folder);
  [[nodiscard]] bool has_strays(model::JobId job) const;
  void end_strays(WallTime now);
  Task end_stray(model::MemberKey key, std::string node, Folder folder);
  // Success: nothing of it is left.
  void stray_ended(const model::MemberKey& key, const Status& ended);

  // use_book.cc: what was held and used
  struct Account {
    WallTime since;                            // until then it is in the books
    double used = 0;                           // since then, thousandths of a GPU times seconds
    std::optional<std::uint64_t> latest = {};  // thousandths of a GPU, of the member told of last
  };
  [[nodiscard]] bool count_due(WallTime now) const;
  void count_use(WallTime now, Duration passed, const std::vector<agent::MemberActivity>& used);
  void book_all(WallTime now);
  void book(const model::Job& job, WallTime now);
  void book_cpu(const model::Job& job, const model::MemberKey& key, const model::MemberEnd& end,
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
  std::set<model::JobId> in_writing_;               // just now, without the lock
  std::map<model::JobId, std::size_t> steps_told_;  // of its history, as events
  std::vector<jobs::Decision> decided_;             // and not written, or not begun
  struct Ended {
    std::string node;
    model::MemberEnd end;
  };
  std::map<model::MemberKey, Ended> ended_;  // and the queue does not know yet
  std::set<model::MemberKey> releasing_;     // of those: a task gives the slice back
  std::vector<model::MemberKey> released_;   // of those: the slice is free
  // Jobs that are to start: as soon as no stray of the job is left, and not before they are due.
  std::map<model::JobId, DeferredStart> deferred_;
  // Members that are ended, again and again until nothing of them is left.
  struct Stray {
    std::string node;
    Folder folder = Folder::kKeep;
    bool busy = false;  // a task is at it
    WallTime due;       // not before
  };
  std::map<model::MemberKey, Stray> strays_;
  // Starts that were refused while members of the attempt lived, which are strays now.
  struct RefusedStart {
    std::uint32_t attempt;
    Error why;
  };
  std::map<model::JobId, RefusedStart> refused_;
  struct Doubtful {
    std::string node;
    WallTime due;     // not before
    std::string why;  // what is to be said where there is nothing of it
  };
  std::map<model::MemberKey, Doubtful> doubtful_;  // nobody knows whether they run
  struct Order {
    std::uint32_t attempt;
    model::Seconds grace;
    WallTime due;
  };
  std::map<model::JobId, Order>
      untold_;  // members that could not be told to end, and when to retry
  std::map<model::JobId, Account> books_;
  std::vector<store::UsageRow> unbooked_;
  std::vector<store::EventRow> untold_events_;  // of machines
  WallTime counted_;
  std::chrono::steady_clock::time_point rested_;  // from the last pass
  bool pass_due_ = false;
  Timings passes_;
  std::function<void()> on_events_;
  bool stopping_ = false;
  std::vector<Machine> machines_;
  std::shared_ptr<ReplyBox> replies_;
  std::unique_ptr<agent::Workers> aside_;  // reads the store for tasks
  JobLines lines_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace divvy::control
