// A machine and a runtime without any process behind them, for the tests of this room: the test
// says which member ends, and what the daemon finds when it comes back. Only for tests.
#pragma once

#include <signal.h>
#include <sys/eventfd.h>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "dispatch/dispatcher.h"
#include "jobs/testing.h"
#include "store/job_table.h"

namespace divvy::dispatch::testing {

// Where calls for some members block until the test lets them go on.
class Barrier {
 public:
  void block(const run::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    blocked_.insert(key);
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    blocked_.clear();
    changed_.notify_all();
  }
  // Until so many calls stand here.
  void await_blocked(std::size_t calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return standing_ >= calls; });
  }
  void pass(const run::MemberKey& key) {
    std::unique_lock lock(mutex_);
    if (!blocked_.contains(key)) return;
    ++standing_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !blocked_.contains(key); });
    --standing_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<run::MemberKey> blocked_;
  std::size_t standing_ = 0;
};

class FakeMachine final : public Machine {
 public:
  explicit FakeMachine(jobs::Fleet fleet) : fleet_(std::move(fleet)) {}

  [[nodiscard]] jobs::Fleet fleet() override { return fleet_; }
  [[nodiscard]] Result<MemberSlice> grant(const run::MemberKey& key, const model::Job& job,
                                          const model::JobMember& member,
                                          const MemberUser&) override {
    grants.pass(key);
    const std::lock_guard lock(mutex_);
    if (refuse > 0) {
      --refuse;
      return err(ErrorCode::kResourceExhausted, "somebody else was quicker");
    }
    HeldSlices held{.key = key, .holder = job.spec.holder, .tenant = model::TenantId(++granted)};
    held.slices = member.slices;
    if (!held_.emplace(key, held).second) return err(ErrorCode::kAlreadyExists, "granted twice");
    return MemberSlice{{{"SLICE", to_string(key)}}, {}, held.tenant};
  }
  [[nodiscard]] Status release(const run::MemberKey& key) override {
    releases.pass(key);
    const std::lock_guard lock(mutex_);
    if (in_use) return err(ErrorCode::kFailedPrecondition, "processes of it use the GPU");
    held_.erase(key);
    return {};
  }
  [[nodiscard]] std::optional<Bytes> memory_peak(const run::MemberKey& key) override {
    const std::lock_guard lock(mutex_);
    return held_.contains(key) ? std::optional(gib(3)) : std::nullopt;
  }
  [[nodiscard]] std::vector<HeldSlices> held() override {
    const std::lock_guard lock(mutex_);
    std::vector<HeldSlices> all;
    for (const auto& [key, held] : held_) all.push_back(held);
    return all;
  }
  void on_gone(std::function<void(const model::MemberKey&)> call) override {
    const std::lock_guard lock(gone_mutex_);
    gone_ = std::move(call);
  }
  // Those who ended are heard of now, if not before.
  void reap() override {
    std::vector<model::MemberKey> ended;
    {
      const std::lock_guard lock(mutex_);
      ended = std::exchange(ended_, {});
    }
    for (const model::MemberKey& key : ended) leave(key);
  }
  [[nodiscard]] bool end_holder(const model::MemberKey& key, int signal) override {
    {
      const std::lock_guard lock(mutex_);
      if (!held_.contains(key)) return false;
      signals.emplace_back(key, signal);
      if (stubborn && signal != SIGKILL) return true;
    }
    leave(key);
    return true;
  }
  [[nodiscard]] Status adopt(model::TenantId tenant, const model::MemberKey& key) override {
    const std::lock_guard lock(mutex_);
    for (auto& [old_key, held] : held_) {
      if (held.tenant != tenant) continue;
      HeldSlices moved = held;
      moved.key = key;
      held_.erase(old_key);
      held_.emplace(key, moved);
      return {};
    }
    return err(ErrorCode::kNotFound, "no such tenant");
  }

  // The holder lets go, and everybody hears of it.
  void leave(const model::MemberKey& key) {
    {
      const std::lock_guard lock(mutex_);
      held_.erase(key);
    }
    const std::lock_guard lock(gone_mutex_);
    if (gone_) gone_(key);
  }
  // It lets go, and nobody hears of it before somebody looks.
  void leave_unseen(const model::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(key);
  }
  // While the daemon is away.
  void forget(const model::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    held_.erase(key);
  }
  void hold(HeldSlices held) {
    const std::lock_guard lock(mutex_);
    held_.emplace(held.key, std::move(held));
  }

  [[nodiscard]] std::vector<MemberActivity> activity() override { return active; }

  Barrier releases;
  Barrier grants;
  bool in_use = false;    // whatever is held: not released
  bool stubborn = false;  // holders end for SIGKILL only
  std::vector<std::pair<model::MemberKey, int>> signals;
  int refuse = 0;   // so many grants
  int granted = 0;  // in all
  std::vector<MemberActivity> active;

 private:
  jobs::Fleet fleet_;
  std::mutex mutex_;
  std::map<run::MemberKey, HeldSlices> held_;
  std::vector<model::MemberKey> ended_;
  std::mutex gone_mutex_;
  std::function<void(const model::MemberKey&)> gone_;
};

class FakeRuntime final : public run::Runtime {
 public:
  [[nodiscard]] Status start(const run::MemberStart& member) override {
    const std::lock_guard lock(mutex_);
    if (fail_starts > 0) {
      --fail_starts;
      return err(ErrorCode::kIo, "no process");
    }
    run::MemberReport report;
    report.key = member.key;
    if (!members_.emplace(member.key, report).second) {
      return err(ErrorCode::kAlreadyExists, "started twice");
    }
    started.push_back(member);
    return {};
  }
  [[nodiscard]] Result<std::vector<run::MemberReport>> find() override {
    const std::lock_guard lock(mutex_);
    std::vector<run::MemberReport> all;
    if (hidden) return all;
    for (const auto& [key, report] : members_) all.push_back(report);
    return all;
  }
  [[nodiscard]] Result<run::MemberReport> find(const run::MemberKey& key) override {
    const std::lock_guard lock(mutex_);
    if (fail_finds > 0) {
      --fail_finds;
      return err(ErrorCode::kIo, "too many open files");
    }
    const auto found = members_.find(key);
    if (found == members_.end()) return err(ErrorCode::kNotFound, "no such member");
    return found->second;
  }
  [[nodiscard]] Status stop(const run::MemberKey& key, std::chrono::seconds) override {
    stops.pass(key);
    {
      const std::lock_guard lock(mutex_);
      if (fail_stops > 0) {
        --fail_stops;
        return err(ErrorCode::kIo, "no answer");
      }
      stopped.push_back(key);
    }
    if (obedient && !immortal.contains(key)) end(key, 0, SIGTERM);
    return {};
  }
  [[nodiscard]] Status freeze(const run::MemberKey&, bool) override { return {}; }
  [[nodiscard]] int watch_fd() const override { return news_.get(); }
  [[nodiscard]] std::vector<run::MemberReport> changes() override {
    looks.pass({});
    const std::lock_guard lock(mutex_);
    eventfd_t times = 0;
    (void)eventfd_read(news_.get(), &times);
    return std::exchange(changed_, {});
  }
  [[nodiscard]] Result<std::map<run::MemberKey, Bytes>> log_sizes() override {
    const std::lock_guard lock(mutex_);
    std::map<run::MemberKey, Bytes> sizes;
    for (const auto& [key, report] : members_) sizes[key] = mib(1);
    return sizes;
  }
  [[nodiscard]] Status forget(const run::MemberKey& key) override {
    const std::lock_guard lock(mutex_);
    if (fail_forgets > 0) {
      --fail_forgets;
      return err(ErrorCode::kIo, "the disk does not answer");
    }
    members_.erase(key);
    return {};
  }

  void end(const run::MemberKey& key, int exit_code, int signal = 0,
           const model::MemberUse& use = {}) {
    const std::lock_guard lock(mutex_);
    run::MemberReport& report = members_.at(key);
    if (report.phase == run::MemberPhase::kEnded) return;
    report.phase = run::MemberPhase::kEnded;
    report.end = model::MemberEnd{WallTime(), exit_code, signal, {}, use};
    changed_.push_back(report);
    (void)eventfd_write(news_.get(), 1);
  }
  [[nodiscard]] bool lives(const run::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find(key);
    return found != members_.end() && found->second.phase == run::MemberPhase::kLiving;
  }
  // Whoever looks next time was not there when it happened.
  void forget_changes() {
    const std::lock_guard lock(mutex_);
    changed_.clear();
  }

  Barrier stops;
  Barrier looks;  // for changes, as of a member without a name
  bool obedient = true;
  std::set<run::MemberKey> immortal;  // the kernel holds it: told to end, it lives on
  int fail_starts = 0;
  int fail_finds = 0;   // of one member
  bool hidden = false;  // from the list of all
  int fail_stops = 0;
  int fail_forgets = 0;
  std::vector<run::MemberStart> started;
  std::vector<run::MemberKey> stopped;

 private:
  UniqueFd news_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::map<run::MemberKey, run::MemberReport> members_;
  std::vector<run::MemberReport> changed_;
};

// A store in a folder of its own, two GPUs, and a dispatcher that can be killed and come back.
class House {
 public:
  explicit House(Dispatcher::Drive drive = Dispatcher::Drive::kCaller)
      : machine(jobs::testing::fleet(1, 2)), drive_(drive) {
    char name[] = "/tmp/divvy-dispatch-XXXXXX";
    folder_ = mkdtemp(name);
    open();
  }
  ~House() {
    dispatcher.reset();
    database.reset();
    std::filesystem::remove_all(folder_);
  }

  void open() {
    database = *store::Database::open(folder_ / "divvy.db");
    dispatcher = *Dispatcher::create(
        {.database = *database,
         .machine = machine,
         .runtime = runtime,
         .account = [](const std::string&) -> Result<Account> { return Account{}; },
         .clock = clock,
         .settings = {},
         .starters = 2,
         .drive = drive_});
    dispatcher->on_events([this] {
      const std::lock_guard lock(events_mutex_);
      ++events_;
      events_changed_.notify_all();
    });
  }
  // What ran runs on; what was only in memory is gone.
  void kill() {
    dispatcher.reset();
    database.reset();
  }

  model::JobId submit(std::uint32_t thousandths, std::uint32_t members = 1) {
    NewJob wanted(jobs::testing::spec(thousandths, members));
    wanted.owner = "ada";
    return dispatcher->submit(wanted)->jobs.front().id;
  }
  // Rounds until nothing more happens.
  void settle() {
    for (int i = 0; i < 6; ++i) {
      dispatcher->step();
      dispatcher->wait_for_tasks();
    }
  }
  model::Job stored(model::JobId id) {
    return **database->read(
        [&](store::Connection& connection) { return store::JobTable(connection).find(id); });
  }

  // With a thread of the dispatcher's own: until it is on the disk.
  void await_state(model::JobId id, model::JobState state) {
    for (;;) {
      std::unique_lock lock(events_mutex_);
      const std::uint64_t before = events_;
      lock.unlock();
      if (stored(id).state == state) return;
      lock.lock();
      events_changed_.wait(lock, [&] { return events_ != before; });
    }
  }

  // While no daemon is there.
  model::Job stored_raw(model::JobId id) {
    const auto alone = *store::Database::open(folder_ / "divvy.db");
    return **alone->read(
        [&](store::Connection& connection) { return store::JobTable(connection).find(id); });
  }

  ManualClock clock;
  FakeMachine machine;
  FakeRuntime runtime;
  std::unique_ptr<store::Database> database;
  std::unique_ptr<Dispatcher> dispatcher;

 private:
  Dispatcher::Drive drive_;
  std::mutex events_mutex_;
  std::condition_variable events_changed_;
  std::uint64_t events_ = 0;  // times that some were written
  std::filesystem::path folder_;
};

}  // namespace divvy::dispatch::testing
