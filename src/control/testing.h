// A machine without any process behind it, for the tests of this room: the test says which member
// ends, and what the daemon finds when it comes back. Only for tests.
#pragma once

#include <signal.h>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/agents.h"
#include "agent/workers.h"
#include "base/clock.h"
#include "base/temporary_folder.h"
#include "base/unique_fd.h"
#include "control/dispatcher.h"
#include "jobs/testing.h"
#include "store/job_table.h"

namespace divvy::control::testing {

// Where calls for some members block until the test lets them go on.
class Barrier {
 public:
  void block(const model::MemberKey& key) {
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
  void pass(const model::MemberKey& key) {
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
  std::set<model::MemberKey> blocked_;
  std::size_t standing_ = 0;
};

// Its slices.
class FakeMachine {
 public:
  [[nodiscard]] Result<agent::Granted> grant(const agent::GrantOrder& order) {
    grants.pass(order.key);
    const std::lock_guard lock(mutex_);
    if (refuse > 0) {
      --refuse;
      return err(ErrorCode::kResourceExhausted, "somebody else was quicker");
    }
    agent::HeldSlices held{
        .key = order.key, .holder = order.holder, .tenant = model::TenantId(++granted)};
    held.slices = order.slices;
    if (!held_.emplace(order.key, held).second) {
      return err(ErrorCode::kAlreadyExists, "granted twice");
    }
    return agent::Granted{{{"SLICE", to_string(order.key)}}, {}, held.tenant};
  }
  [[nodiscard]] Status release(const model::MemberKey& key) {
    releases.pass(key);
    const std::lock_guard lock(mutex_);
    if (in_use) return err(ErrorCode::kFailedPrecondition, "processes of it use the GPU");
    held_.erase(key);
    return {};
  }
  [[nodiscard]] std::optional<Bytes> memory_peak(const model::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    return held_.contains(key) ? std::optional(gib(3)) : std::nullopt;
  }
  [[nodiscard]] std::vector<agent::HeldSlices> held() {
    const std::lock_guard lock(mutex_);
    std::vector<agent::HeldSlices> all;
    for (const auto& [key, held] : held_) all.push_back(held);
    return all;
  }
  void on_gone(std::function<void(const model::MemberKey&)> call) {
    const std::lock_guard lock(gone_mutex_);
    gone_ = std::move(call);
  }
  // Those who ended are heard of now, if not before.
  void reap() {
    std::vector<model::MemberKey> ended;
    {
      const std::lock_guard lock(mutex_);
      ended = std::exchange(ended_, {});
    }
    for (const model::MemberKey& key : ended) leave(key);
  }
  [[nodiscard]] bool end_holder(const model::MemberKey& key, int signal) {
    {
      const std::lock_guard lock(mutex_);
      if (!held_.contains(key)) return false;
      signals.emplace_back(key, signal);
      if (stubborn && signal != SIGKILL) return true;
    }
    leave(key);
    return true;
  }
  [[nodiscard]] Status adopt(model::TenantId tenant, const model::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    for (auto& [old_key, held] : held_) {
      if (held.tenant != tenant) continue;
      agent::HeldSlices moved = held;
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
  void hold(agent::HeldSlices held) {
    const std::lock_guard lock(mutex_);
    held_.emplace(held.key, std::move(held));
  }

  [[nodiscard]] std::vector<agent::MemberActivity> activity() { return active; }

  Barrier releases;
  Barrier grants;
  bool in_use = false;    // whatever is held: not released
  bool stubborn = false;  // holders end for SIGKILL only
  std::vector<std::pair<model::MemberKey, int>> signals;
  int refuse = 0;   // so many grants
  int granted = 0;  // in all
  std::vector<agent::MemberActivity> active;

 private:
  std::mutex mutex_;
  std::map<model::MemberKey, agent::HeldSlices> held_;
  std::vector<model::MemberKey> ended_;
  std::mutex gone_mutex_;
  std::function<void(const model::MemberKey&)> gone_;
};

// Its members.
class FakeRuntime {
 public:
  explicit FakeRuntime(std::function<void(const model::MemberReport&)> told)
      : told_(std::move(told)) {}
  [[nodiscard]] Status start(const agent::StartOrder& member) {
    const std::lock_guard lock(mutex_);
    if (fail_starts > 0) {
      --fail_starts;
      return err(ErrorCode::kIo, "no process");
    }
    model::MemberReport report;
    report.key = member.key;
    if (!members_.emplace(member.key, report).second) {
      return err(ErrorCode::kAlreadyExists, "started twice");
    }
    started.push_back(member);
    return {};
  }
  [[nodiscard]] Result<std::vector<model::MemberReport>> find() {
    const std::lock_guard lock(mutex_);
    std::vector<model::MemberReport> all;
    if (hidden) return all;
    for (const auto& [key, report] : members_) all.push_back(report);
    return all;
  }
  [[nodiscard]] Result<model::MemberReport> find(const model::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    if (fail_finds > 0) {
      --fail_finds;
      return err(ErrorCode::kIo, "too many open files");
    }
    const auto found = members_.find(key);
    if (found == members_.end()) return err(ErrorCode::kNotFound, "no such member");
    return found->second;
  }
  [[nodiscard]] Status stop(const model::MemberKey& key, std::chrono::seconds) {
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
  [[nodiscard]] Result<std::map<model::MemberKey, Bytes>> log_sizes() {
    const std::lock_guard lock(mutex_);
    std::map<model::MemberKey, Bytes> sizes;
    for (const auto& [key, report] : members_) sizes[key] = mib(1);
    return sizes;
  }
  [[nodiscard]] Status forget(const model::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    if (fail_forgets > 0) {
      --fail_forgets;
      return err(ErrorCode::kIo, "the disk does not answer");
    }
    members_.erase(key);
    return {};
  }

  void end(const model::MemberKey& key, int exit_code, int signal = 0,
           const model::MemberUse& use = {}) {
    model::MemberReport ended;
    {
      const std::lock_guard lock(mutex_);
      model::MemberReport& report = members_.at(key);
      if (report.phase == model::MemberPhase::kEnded) return;
      report.phase = model::MemberPhase::kEnded;
      report.end = model::MemberEnd{WallTime(), exit_code, signal, {}, use};
      ended = report;
    }
    if (seen) told_(ended);
  }
  // It ends, and nobody is told.
  void end_unseen(const model::MemberKey& key, int exit_code, const model::MemberUse& use = {}) {
    seen = false;
    end(key, exit_code, 0, use);
    seen = true;
  }
  [[nodiscard]] std::vector<model::MemberKey> living() {
    const std::lock_guard lock(mutex_);
    std::vector<model::MemberKey> all;
    for (const auto& [key, report] : members_) {
      if (report.phase == model::MemberPhase::kLiving) all.push_back(key);
    }
    return all;
  }
  [[nodiscard]] bool lives(const model::MemberKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find(key);
    return found != members_.end() && found->second.phase == model::MemberPhase::kLiving;
  }
  bool seen = true;
  Barrier stops;
  bool obedient = true;
  std::set<model::MemberKey> immortal;  // the kernel holds it: told to end, it lives on
  int fail_starts = 0;
  int fail_finds = 0;   // of one member
  bool hidden = false;  // from the list of all
  int fail_stops = 0;
  int fail_forgets = 0;
  std::vector<agent::StartOrder> started;
  std::vector<model::MemberKey> stopped;

 private:
  std::function<void(const model::MemberReport&)> told_;
  std::mutex mutex_;
  std::map<model::MemberKey, model::MemberReport> members_;
};

// Both behind one agent, whose threads may be blocked by the test.
class FakeAgent final : public agent::Agent {
 public:
  explicit FakeAgent(agent::MachineState state)
      : runtime([this](const model::MemberReport& report) { tell(agent::MemberEnded{report}); }),
        state_(std::move(state)) {
    machine.on_gone([this](const model::MemberKey& key) { tell(agent::HolderGone{key}); });
  }
  ~FakeAgent() override { workers_.reset(); }

  [[nodiscard]] const std::string& node() const override { return state_.node; }
  void send(agent::Order order, Reply reply) override {
    workers_->add(agent::Work::kEnd, [this, order = std::move(order), reply = std::move(reply)] {
      reply(carry_out(order));
    });
  }
  Result<agent::Answer> carry_out(const agent::Order& order) {
    return std::visit(
        [this](const auto& one) -> Result<agent::Answer> {
          if constexpr (requires(FakeAgent& fake) { fake.answer(one); }) {
            return answer(one);
          } else {
            return err(ErrorCode::kUnsupported, "nobody looks here");
          }
        },
        order);
  }
  void listen(Listener listener) override {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }
  [[nodiscard]] Result<UniqueFd> open_stream(const agent::StreamOrder& /*order*/) override {
    return err(ErrorCode::kUnsupported, "no streams here");
  }
  void tell(agent::News news) {
    const std::lock_guard lock(mutex_);
    if (listener_) listener_(std::move(news));
  }

  FakeMachine machine;
  FakeRuntime runtime;

 private:
  static Result<agent::Answer> done(const Status& status) {
    if (!status) return err(status.error());
    return agent::Answer(agent::Done{});
  }
  Result<agent::Answer> answer(const agent::GrantOrder& order) {
    DIVVY_TRY(granted, machine.grant(order));
    return agent::Answer(granted);
  }
  Result<agent::Answer> answer(const agent::ReleaseOrder& order) {
    const auto peak = machine.memory_peak(order.key);
    DIVVY_RETURN_IF_ERROR(machine.release(order.key));
    return agent::Answer(agent::Released{peak});
  }
  Result<agent::Answer> answer(const agent::AdoptOrder& order) {
    return done(machine.adopt(order.tenant, order.key));
  }
  Result<agent::Answer> answer(const agent::SignalOrder& order) {
    return agent::Answer(agent::Signalled{machine.end_holder(order.key, order.signal)});
  }
  Result<agent::Answer> answer(const agent::ReapOrder& /*order*/) {
    machine.reap();
    return agent::Answer(agent::Done{});
  }
  Result<agent::Answer> answer(const agent::StartOrder& order) {
    return done(runtime.start(order));
  }
  Result<agent::Answer> answer(const agent::FindOrder& order) {
    auto report = runtime.find(order.key);
    if (!report && report.error().code == ErrorCode::kNotFound) {
      return agent::Answer(agent::Found{});
    }
    if (!report) return err(report.error());
    return agent::Answer(agent::Found{*report});
  }
  Result<agent::Answer> answer(const agent::StopOrder& order) {
    return done(runtime.stop(order.key, order.grace));
  }
  Result<agent::Answer> answer(const agent::ForgetOrder& order) {
    return done(runtime.forget(order.key));
  }
  Result<agent::Answer> answer(const agent::CheckOrder& /*order*/) {
    return agent::Answer(agent::Done{});
  }
  Result<agent::Answer> answer(const agent::ActivityOrder& /*order*/) {
    return agent::Answer(agent::Activity{machine.active});
  }
  Result<agent::Answer> answer(const agent::ListOrder& /*order*/) {
    DIVVY_TRY(members, runtime.find());
    return agent::Answer(agent::Listing{state_, members, machine.held()});
  }
  Result<agent::Answer> answer(const agent::OutputSizesOrder& /*order*/) {
    DIVVY_TRY(sizes, runtime.log_sizes());
    return agent::Answer(agent::OutputSizes{sizes});
  }
  agent::MachineState state_;
  std::mutex mutex_;
  Listener listener_;
  std::unique_ptr<agent::Workers> workers_ =
      std::make_unique<agent::Workers>(std::array{0U, 0U, 32U, 0U});
};

// A machine of a fleet of the queue's tests.
inline agent::MachineState machine_state(const jobs::Fleet& fleet, std::size_t which = 0) {
  const jobs::FleetNode& node = fleet.nodes[which];
  agent::MachineState state;
  state.node = node.name;
  state.address = "127.0.0.1";
  state.cpu_milli = node.cpu_milli;
  state.ram = node.ram;
  state.smallest_slice = fleet.smallest_slice;
  for (const jobs::FleetGpu& gpu : node.gpus) {
    agent::MachineGpu one{.uuid = gpu.uuid};
    one.index = gpu.index;
    one.model = gpu.device.model;
    one.memory = gpu.device.memory;
    state.gpus.push_back(std::move(one));
  }
  return state;
}

// A store in a folder of its own, two GPUs, and a dispatcher that can be killed and come back.
class TestDaemon {
 public:
  explicit TestDaemon(Dispatcher::Drive drive = Dispatcher::Drive::kCaller)
      : agent(machine_state(jobs::testing::fleet(1, 2))), drive_(drive) {
    open();
  }
  ~TestDaemon() {
    dispatcher.reset();
    database.reset();
  }

  void open() {
    database = *store::Database::open(folder_ / "divvy.db");
    secrets.emplace(*database, clock, folder_ / "secrets.key");
    dispatcher = *Dispatcher::create({.database = *database,
                                      .agents = agents,
                                      .clock = clock,
                                      .settings = {},
                                      .drive = drive_,
                                      .secrets = &*secrets,
                                      .check_notify = check_notify});
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
      dispatcher->wait_for_replies();
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
  FakeAgent agent;
  FakeMachine& machine = agent.machine;
  FakeRuntime& runtime = agent.runtime;
  agent::Agents agents{{&agent}};
  std::unique_ptr<store::Database> database;
  std::optional<Secrets> secrets;
  // As of the next open().
  std::function<Status(const model::Notify&)> check_notify = [](const auto&) { return Status(); };
  std::unique_ptr<Dispatcher> dispatcher;

 private:
  Dispatcher::Drive drive_;
  std::mutex events_mutex_;
  std::condition_variable events_changed_;
  std::uint64_t events_ = 0;  // times that some were written
  TemporaryFolder folder_;
};

}  // namespace divvy::control::testing
