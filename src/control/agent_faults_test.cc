// Agents that answer late, in another order, not at all, that they could not do it or only that
// they are away, and that tell of ends late, in another order and twice: whatever they do, nothing
// is started twice, nothing is lost and nothing is left over.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>

#include "base/temporary_folder.h"
#include "control/testing.h"
#include "store/job_table.h"

namespace divvy::control {
namespace {

using model::JobState;

// One machine whose orders wait until the test decides what becomes of each.
class FaultyAgent final : public agent::Agent {
 public:
  explicit FaultyAgent(agent::MachineState state) : inside(std::move(state)) {}

  [[nodiscard]] const std::string& node() const override { return inside.node(); }
  void send(agent::Order order, Reply reply) override {
    // Whoever waits for the answer (the beginning, a submit) gets it.
    const bool waited_for = std::holds_alternative<agent::ListOrder>(order) ||
                            std::holds_alternative<agent::CheckOrder>(order);
    if (calm || waited_for) return inside.send(std::move(order), std::move(reply));
    // The thread that removes what old jobs left behind sends orders, too.
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(order), std::move(reply)});
  }
  void listen(Listener listener) override {
    {
      const std::lock_guard lock(mutex_);
      listener_ = std::move(listener);
      news_.clear();  // What was on the way to the one before never arrives.
    }
    inside.listen([this](const agent::News& news) { tell(news); });
  }
  [[nodiscard]] Result<UniqueFd> open_stream(const agent::StreamOrder& order) override {
    return inside.open_stream(order);
  }

  enum class Fate { kDone, kDoneButLost, kNeverArrived };
  // One of those that wait, in any order; false: none does.
  bool settle_one(std::size_t dice, Fate fate) {
    Waiting one;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return false;
      const std::size_t which = dice % waiting_.size();
      one = std::move(waiting_[which]);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(which));
    }
    Result<agent::Answer> answer = err(ErrorCode::kUnavailable, "away");
    if (fate != Fate::kNeverArrived) {
      Result<agent::Answer> real = inside.carry_out(one.order);
      if (fate == Fate::kDone) answer = std::move(real);
    }
    one.reply(std::move(answer));
    return true;
  }
  // A piece of news that is on the way arrives, in any order; `again`: and once more later.
  bool deliver_one(std::size_t dice, bool again) {
    agent::News news;
    {
      const std::lock_guard lock(mutex_);
      if (news_.empty()) return false;
      const std::size_t which = dice % news_.size();
      news = news_[which];
      if (!again) news_.erase(news_.begin() + static_cast<std::ptrdiff_t>(which));
    }
    pass_on(news);
    return true;
  }
  // The connection is lost, with every answer and all news, and comes back.
  void drop() {
    std::vector<Waiting> lost;
    {
      const std::lock_guard lock(mutex_);
      lost.swap(waiting_);
      news_.clear();
    }
    inside.tell(agent::Reachable{false});
    for (Waiting& one : lost) {
      one.reply(err(ErrorCode::kUnavailable, "away"));
    }
    inside.tell(agent::Reachable{true});
  }

  testing::FakeAgent inside;
  std::atomic<bool> calm = true;

 private:
  struct Waiting {
    agent::Order order;
    Reply reply;
  };
  void tell(const agent::News& news) {
    if (!calm && !std::holds_alternative<agent::Reachable>(news)) {
      const std::lock_guard lock(mutex_);
      news_.push_back(news);
      return;
    }
    pass_on(news);
  }
  void pass_on(const agent::News& news) {
    Listener listener;
    {
      const std::lock_guard lock(mutex_);
      listener = listener_;
    }
    if (listener) listener(news);
  }

  std::mutex mutex_;  // of the next
  std::vector<Waiting> waiting_;
  std::vector<agent::News> news_;
  Listener listener_;
};

class TwoMachines {
 public:
  explicit TwoMachines(std::uint64_t seed) : dice_(seed) {
    const jobs::Fleet fleet = jobs::testing::fleet(2, 2);
    for (std::size_t i = 0; i < 2; ++i) {
      machines_.push_back(std::make_unique<FaultyAgent>(testing::machine_state(fleet, i)));
    }
    agents_ = std::make_unique<agent::Agents>(
        std::vector<agent::Agent*>{machines_[0].get(), machines_[1].get()});
    open();
  }
  ~TwoMachines() {
    set_calm(true);
    dispatcher_.reset();
    database_.reset();
  }

  void open() {
    set_calm(true);
    database_ = *store::Database::open(folder_ / "divvy.db");
    dispatcher_ = *Dispatcher::create({.database = *database_,
                                       .agents = *agents_,
                                       .clock = clock_,
                                       .settings = {},
                                       .drive = Dispatcher::Drive::kCaller});
    set_calm(false);
  }
  void kill() {
    dispatcher_.reset();
    database_.reset();
    // What they were told when the daemon died may arrive or not.
    while (settle_one()) {
    }
  }
  void set_calm(bool calm) {
    for (const auto& machine : machines_) machine->calm = calm;
  }

  std::size_t below(std::size_t limit) { return dice_() % limit; }
  bool settle_one() {
    using Fate = FaultyAgent::Fate;
    const Fate fate = below(10) < 8   ? Fate::kDone
                      : below(2) == 0 ? Fate::kDoneButLost
                                      : Fate::kNeverArrived;
    const std::size_t first = below(2);
    return machines_[first]->settle_one(dice_(), fate) ||
           machines_[1 - first]->settle_one(dice_(), fate);
  }

  bool deliver_one() {
    const std::size_t first = below(2);
    const bool again = below(4) == 0;
    return machines_[first]->deliver_one(dice_(), again) ||
           machines_[1 - first]->deliver_one(dice_(), again);
  }
  // The next order of some kind is not carried out, and its answer says so.
  void let_fail() {
    testing::FakeAgent& machine = machines_[below(2)]->inside;
    int* const failures[] = {&machine.machine.refuse, &machine.runtime.fail_starts,
                             &machine.runtime.fail_stops, &machine.runtime.fail_finds,
                             &machine.runtime.fail_forgets};
    *failures[below(std::size(failures))] = 1;
  }

  // One thing that happens.
  void happen() {
    switch (below(15)) {
      case 0: {
        NewJob wanted(jobs::testing::spec(below(2) == 0 ? 500 : 1000, 1 + below(3)));
        wanted.owner = "ada";
        if (const auto made = dispatcher_->submit(wanted)) {
          jobs_.push_back(made->jobs.front().id);
        }
        break;
      }
      case 1:
        if (!jobs_.empty()) (void)dispatcher_->cancel(jobs_[below(jobs_.size())], "ada");
        break;
      case 2:
        end_some_member();
        break;
      case 3:
        machines_[below(2)]->drop();
        break;
      case 4:
        if (below(10) == 0) {
          kill();
          open();
        }
        break;
      case 5:
      case 6:
      case 7:
        dispatcher_->step();
        break;
      case 8:
        clock_.advance(std::chrono::seconds(1 + below(10)));
        break;
      case 9:
        let_fail();
        break;
      case 10:
      case 11:
        (void)deliver_one();
        break;
      default:
        (void)settle_one();
    }
    check();
  }

  void end_some_member() {
    testing::FakeRuntime& runtime = machines_[below(2)]->inside.runtime;
    const auto living = runtime.living();
    if (!living.empty()) runtime.end(living[below(living.size())], below(3) == 0 ? 1 : 0);
  }

  // Of one job no two attempts live at the same time, and no member twice.
  void check() {
    std::map<model::JobId, std::uint32_t> attempts;
    std::set<model::MemberKey> keys;
    for (const auto& machine : machines_) {
      for (const model::MemberKey& key : machine->inside.runtime.living()) {
        EXPECT_TRUE(keys.insert(key).second) << to_string(key) << " lives on two machines";
        const auto [known, first] = attempts.emplace(key.job, key.attempt);
        EXPECT_EQ(known->second, key.attempt) << "two attempts of job " << key.job.value();
      }
    }
  }

  // Everybody answers, and whoever runs comes to an end.
  void come_to_rest() {
    while (settle_one()) {
    }
    while (deliver_one()) {
    }
    set_calm(true);
    for (int round = 0; round < 400; ++round) {
      dispatcher_->step();
      dispatcher_->wait_for_replies();
      for (const auto& machine : machines_) {
        for (const auto& key : machine->inside.runtime.living())
          machine->inside.runtime.end(key, 0);
      }
      clock_.advance(std::chrono::seconds(10));
      check();
    }
  }

  [[nodiscard]] model::Job stored(model::JobId id) {
    return **database_->read(
        [&](store::Connection& connection) { return store::JobTable(connection).find(id); });
  }

  std::vector<model::JobId> jobs_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<std::unique_ptr<FaultyAgent>> machines_;

 private:
  std::mt19937_64 dice_;
  TemporaryFolder folder_;
  ManualClock clock_;
  std::unique_ptr<agent::Agents> agents_;
  std::unique_ptr<store::Database> database_;
};

TEST(AgentFaults, AnyScheduleStartsNothingTwiceAndLosesNothing) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    TwoMachines fleet(seed);
    for (int i = 0; i < 400; ++i) fleet.happen();
    fleet.come_to_rest();
    for (const model::JobId job : fleet.jobs_) {
      const model::Job ended = fleet.stored(job);
      EXPECT_TRUE(model::is_finished(ended.state))
          << "job " << job.value() << " is " << to_string(ended.state) << ": "
          << ended.history.back().reason;
    }
    for (const auto& machine : fleet.machines_) {
      EXPECT_TRUE(machine->inside.machine.held().empty());
    }
    EXPECT_EQ(fleet.dispatcher_->entries_kept(), 0U);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(AgentFaults, AMachineThatDoesNotAnswerHoldsUpNeitherSubmitsNorTheOther) {
  TwoMachines fleet(1);
  fleet.machines_[1]->calm = true;
  std::vector<model::JobId> jobs;
  for (int i = 0; i < 8; ++i) {
    NewJob wanted(jobs::testing::spec(500));
    wanted.owner = "ada";
    jobs.push_back(fleet.dispatcher_->submit(wanted)->jobs.front().id);
  }
  fleet.machines_[0]->calm = false;  // it keeps every order
  for (int round = 0; round < 10; ++round) fleet.dispatcher_->step();
  std::size_t running = 0;
  for (int round = 0; round < 2'000 && running < 4; ++round) {
    fleet.dispatcher_->step();
    running = 0;
    for (const model::JobId job : jobs) {
      if (fleet.stored(job).state == JobState::kRunning) ++running;
    }
  }
  EXPECT_EQ(running, 4U) << "all that fit on the machine that answers";
}

}  // namespace
}  // namespace divvy::control
