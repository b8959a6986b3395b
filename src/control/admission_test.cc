// Processes and slices held by a name, as jobs like any other: admitted by the queue, counted,
// found again, ended.
#include "control/admission.h"

#include <gtest/gtest.h>

#include <random>

#include "control/testing.h"
#include "store/usage_table.h"

namespace divvy::control {
namespace {

using model::Holder;
using model::JobState;
using testing::TestDaemon;

using Answer = std::optional<Result<AdmissionAnswer>>;

class AdmissionTest : public ::testing::Test {
 protected:
  std::shared_ptr<Admission> ask(std::uint32_t share, bool waits = false,
                                 Holder holder = Holder::kProcess,
                                 const std::string& queue = "default") {
    NewJob wanted(jobs::testing::spec(share));
    wanted.owner = "ada";
    wanted.spec.holder = holder;
    wanted.spec.queue = queue;
    wanted.spec.hold_for_capacity = false;
    auto admission = daemon_.dispatcher->admit(wanted, {.pid = 7, .uid = 1000, .gid = 1000}, waits);
    EXPECT_TRUE(admission.has_value()) << admission.error().message;
    return admission ? *admission : nullptr;
  }
  Answer answer(const std::shared_ptr<Admission>& admission) {
    daemon_.settle();
    return daemon_.dispatcher->answer(admission);
  }
  // It is granted; the test fails where it is not.
  model::JobId admitted(const std::shared_ptr<Admission>& admission) {
    const Answer given = answer(admission);
    EXPECT_TRUE(given && *given && std::holds_alternative<Admitted>(**given));
    if (!given || !*given || !std::holds_alternative<Admitted>(**given)) return {};
    return std::get<Admitted>(**given).job;
  }
  static model::MemberKey key(model::JobId job) { return {job, 1, 0}; }

  TestDaemon daemon_;
};

TEST_F(AdmissionTest, AProcessIsAJobThatRunsAndEnds) {
  const model::JobId job = admitted(ask(300));
  EXPECT_EQ(daemon_.stored(job).state, JobState::kRunning);
  EXPECT_EQ(daemon_.stored(job).spec.holder, Holder::kProcess);
  EXPECT_EQ(daemon_.machine.held().size(), 1U);
  EXPECT_TRUE(daemon_.runtime.started.empty()) << "Divvy starts nothing";
  daemon_.machine.leave(key(job));
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(job).state, JobState::kSucceeded);
  EXPECT_EQ(daemon_.stored(job).history.back().reason, "its process has ended");
  EXPECT_EQ(daemon_.dispatcher->entries_kept(), 0U);
}

TEST_F(AdmissionTest, AProcessWithoutANameHasThatOfItsProgram) {
  NewJob wanted(jobs::testing::spec(300));
  wanted.spec.holder = Holder::kProcess;
  wanted.spec.name.clear();
  wanted.spec.command = {"/usr/bin/gpuload -o text info"};
  const auto asked = daemon_.dispatcher->admit(wanted, {.pid = 7, .uid = 1000, .gid = 1000}, false);
  ASSERT_TRUE(asked.has_value()) << asked.error().message;
  EXPECT_EQ(daemon_.stored(admitted(*asked)).spec.name, "gpuload");
}

TEST_F(AdmissionTest, JobsAndProcessesAreNumberedInOneLine) {
  EXPECT_EQ(daemon_.submit(300), model::JobId(1));
  EXPECT_EQ(admitted(ask(300)), model::JobId(2));
  EXPECT_EQ(daemon_.submit(300), model::JobId(3));
}

TEST_F(AdmissionTest, WithoutWaitingIsRefusedAndLeavesNoJob) {
  admitted(ask(2000));
  const Answer given = answer(ask(500));
  ASSERT_TRUE(given && *given && std::holds_alternative<NotNow>(**given));
  EXPECT_EQ(std::get<NotNow>(**given).why.kind, jobs::WaitKind::kFull);
  EXPECT_EQ(daemon_.submit(100), model::JobId(2)) << "its number was given again";
}

TEST_F(AdmissionTest, SeesGpusOfAJobThatHasJustEnded) {
  const model::JobId first = admitted(ask(2000));
  daemon_.machine.leave_unseen(key(first));
  admitted(ask(2000));
  EXPECT_EQ(daemon_.stored(first).state, JobState::kSucceeded);
}

TEST_F(AdmissionTest, ProcessesAndJobsShareOneLine) {
  const model::JobId first = admitted(ask(2000));
  const model::JobId job = daemon_.submit(2000);
  const auto waiting = ask(2000, true);
  EXPECT_FALSE(answer(waiting).has_value());
  EXPECT_EQ(daemon_.dispatcher->waiting(), 2U);
  daemon_.machine.leave(key(first));
  EXPECT_FALSE(answer(waiting).has_value()) << "the job came before";
  EXPECT_EQ(daemon_.stored(job).state, JobState::kRunning);
  daemon_.runtime.end({job, 1, 0}, 0);
  admitted(waiting);
}

TEST_F(AdmissionTest, ADisconnectedWaiterIsWithdrawn) {
  admitted(ask(2000));
  const auto waiting = ask(500, true);
  EXPECT_FALSE(answer(waiting).has_value());
  daemon_.dispatcher->give_up(waiting);
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(model::JobId(2)).state, JobState::kCancelled);
  EXPECT_EQ(daemon_.dispatcher->waiting(), 0U);
}

TEST_F(AdmissionTest, ADisconnectDuringTheGrantHoldsNothing) {
  const auto admission = ask(500);
  daemon_.machine.grants.block(key(model::JobId(1)));
  daemon_.dispatcher->step();
  daemon_.machine.grants.await_blocked(1);
  daemon_.dispatcher->give_up(admission);
  daemon_.machine.grants.let_go();
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(model::JobId(1)).state, JobState::kCancelled);
  EXPECT_TRUE(daemon_.machine.held().empty());
}

TEST_F(AdmissionTest, AWaitingOneThatIsDeletedIsTold) {
  admitted(ask(2000));
  const auto waiting = ask(500, true);
  EXPECT_FALSE(answer(waiting).has_value());
  ASSERT_TRUE(daemon_.dispatcher->cancel(model::JobId(2), "root").has_value());
  const Answer given = answer(waiting);
  ASSERT_TRUE(given && !*given);
  EXPECT_NE(given->error().message.find("cancelled by root"), std::string::npos);
}

TEST_F(AdmissionTest, ARefusedGrantIsRetriedWhileTheCallerWaits) {
  daemon_.machine.refuse = 1;
  const auto waiting = ask(300, true);
  EXPECT_FALSE(answer(waiting).has_value());
  daemon_.clock.advance(std::chrono::seconds(60));
  admitted(waiting);
  daemon_.machine.refuse = 1;
  const Answer given = answer(ask(300));
  ASSERT_TRUE(given && !*given) << "and who does not wait is told";
  EXPECT_EQ(given->error().code, ErrorCode::kResourceExhausted);
}

TEST_F(AdmissionTest, QuotaHoldsForProcessesAndSlices) {
  jobs::Settings settings;
  jobs::QueueSettings research;
  research.path = "research";
  research.quota.share = Share(1000);
  research.may_borrow = false;
  settings.queues.push_back(research);
  ASSERT_TRUE(daemon_.dispatcher->set_settings(settings).has_value());
  admitted(ask(500, false, Holder::kProcess, "research"));
  admitted(ask(300, false, Holder::kSlice, "research"));
  const Answer given = answer(ask(300, false, Holder::kProcess, "research"));
  ASSERT_TRUE(given && *given && std::holds_alternative<NotNow>(**given));
  EXPECT_EQ(std::get<NotNow>(**given).why.kind, jobs::WaitKind::kQuota);
  admitted(ask(300));
}

// Whatever uses its slices: members that the queue starts, the caller's process, or nothing.
class EveryHolder : public AdmissionTest, public ::testing::WithParamInterface<Holder> {
 protected:
  model::JobId begin(std::uint32_t share) {
    if (GetParam() != Holder::kMembers) return admitted(ask(share, false, GetParam()));
    const model::JobId job = daemon_.submit(share);
    daemon_.settle();
    return job;
  }
  // One that has to wait.
  model::JobId begin_waiting(std::uint32_t share) {
    if (GetParam() == Holder::kMembers) {
      (void)daemon_.submit(share);
    } else {
      waiting_ = ask(share, true, GetParam());
    }
    daemon_.settle();
    const auto all = *daemon_.database->read(
        [](store::Connection& connection) { return store::JobTable(connection).list({}); });
    return all.jobs.front().id;
  }
  void end(model::JobId job) {
    if (GetParam() == Holder::kMembers) {
      daemon_.runtime.end(key(job), 0);
    } else {
      daemon_.machine.leave(key(job));
    }
    daemon_.settle();
  }

 private:
  std::shared_ptr<Admission> waiting_;
};

TEST_P(EveryHolder, IsBookedAsUsage) {
  const model::JobId job = begin(500);
  daemon_.clock.advance(std::chrono::seconds(100));
  end(job);
  const auto rows = *daemon_.database->read(
      [](store::Connection& connection) { return store::UsageTable(connection).rows({}); });
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].owner, "ada");
  EXPECT_EQ(rows[0].held, 50'000U);
}

TEST_P(EveryHolder, HasItsStepsAsEvents) {
  const model::JobId job = begin(500);
  end(job);
  const auto events = *daemon_.database->read(
      [](store::Connection& connection) { return store::EventTable(connection).list({}); });
  std::vector<std::string> states;
  for (const store::EventRow& event : events) {
    EXPECT_EQ(event.job, job);
    EXPECT_EQ(event.user, "ada");
    states.push_back(event.state);
  }
  EXPECT_EQ(states, (std::vector<std::string>{"queued", "starting", "running", "succeeded"}));
}

TEST_P(EveryHolder, WaitsForItsQuotaAndIsExplained) {
  jobs::Settings settings;
  jobs::QueueSettings everybody;
  everybody.path = "default";
  everybody.quota.share = Share(600);
  everybody.may_borrow = false;
  settings.queues.push_back(everybody);
  ASSERT_TRUE(daemon_.dispatcher->set_settings(settings).has_value());
  const model::JobId first = begin(500);
  EXPECT_EQ(daemon_.stored(first).state, JobState::kRunning);
  const model::JobId second = begin_waiting(500);
  ASSERT_NE(second, first);
  EXPECT_EQ(daemon_.stored(second).state, JobState::kQueued);
  const jobs::WaitReport why = daemon_.dispatcher->explain(second);
  EXPECT_EQ(why.kind, jobs::WaitKind::kQuota) << why.text;
  end(first);
  EXPECT_EQ(daemon_.stored(second).state, JobState::kRunning);
}

INSTANTIATE_TEST_SUITE_P(Holders, EveryHolder,
                         ::testing::Values(Holder::kMembers, Holder::kProcess, Holder::kSlice),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_F(AdmissionTest, TheyAreNotPreempted) {
  admitted(ask(2000));
  NewJob urgent(jobs::testing::spec(2000));
  urgent.owner = "ada";
  urgent.spec.priority = 100;
  const model::JobId job = daemon_.dispatcher->submit(urgent)->jobs.front().id;
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(job).state, JobState::kQueued);
  EXPECT_TRUE(daemon_.machine.signals.empty());
  EXPECT_FALSE(daemon_.dispatcher->suspend(model::JobId(1), "root").has_value());
  EXPECT_FALSE(daemon_.dispatcher->requeue(model::JobId(1), "root").has_value());
}

TEST_F(AdmissionTest, ADeletedProcessIsToldAndThenKilled) {
  daemon_.machine.stubborn = true;
  const model::JobId job = admitted(ask(500));
  ASSERT_TRUE(daemon_.dispatcher->cancel(job, "ada").has_value());
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(job).state, JobState::kStopping);
  ASSERT_EQ(daemon_.machine.signals.size(), 1U);
  EXPECT_EQ(daemon_.machine.signals[0].second, SIGTERM);
  daemon_.clock.advance(std::chrono::seconds(31));
  daemon_.settle();
  EXPECT_EQ(daemon_.machine.signals.back().second, SIGKILL);
  EXPECT_EQ(daemon_.stored(job).state, JobState::kCancelled);
  EXPECT_TRUE(daemon_.machine.held().empty());
}

TEST_F(AdmissionTest, AfterARestartTheyAreThereOrHaveEnded) {
  const model::JobId stays = admitted(ask(500));
  const model::JobId goes = admitted(ask(500));
  admitted(ask(500, false, Holder::kSlice));
  const auto waiting = ask(1000, true);
  EXPECT_FALSE(answer(waiting).has_value());
  daemon_.kill();
  daemon_.machine.forget(key(goes));
  daemon_.open();
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(stays).state, JobState::kRunning);
  EXPECT_EQ(daemon_.stored(goes).state, JobState::kSucceeded);
  EXPECT_EQ(daemon_.stored(model::JobId(4)).state, JobState::kCancelled) << "nobody waits for it";
  EXPECT_EQ(daemon_.machine.held().size(), 2U);
}

TEST_F(AdmissionTest, ReleasesUnacknowledgedGrantsAfterARestart) {
  daemon_.machine.hold({.key = {model::JobId(9), 1, 0}, .holder = Holder::kProcess});
  daemon_.kill();
  daemon_.open();
  daemon_.settle();
  EXPECT_TRUE(daemon_.machine.held().empty());
  EXPECT_EQ(daemon_.submit(100), model::JobId(10)) << "a number that was given is not given again";
}

TEST_F(AdmissionTest, OnAFullDiskNothingIsGrantedAndThatIsSaid) {
  admitted(ask(100));
  const auto most_pages = [this](const std::string& count) {
    ASSERT_TRUE(daemon_.database->commit([&](store::Connection& connection) {
      return connection.execute("PRAGMA max_page_count = " + count);
    }));
  };
  most_pages("1");  // That is, no more than there are
  NewJob large(jobs::testing::spec(100));
  large.owner = "ada";
  large.spec.holder = Holder::kProcess;
  large.spec.command.emplace_back(100'000, 'x');
  const auto asked = daemon_.dispatcher->admit(large, {.pid = 7, .uid = 1000, .gid = 1000}, false);
  ASSERT_TRUE(asked.has_value()) << asked.error().message;
  const Answer refused = answer(*asked);
  ASSERT_TRUE(refused && !*refused);
  EXPECT_EQ(refused->error().code, ErrorCode::kIo) << "and not that somebody was quicker";
  EXPECT_NE(refused->error().message.find("is full"), std::string::npos)
      << refused->error().message;
  most_pages("1000000");
  daemon_.settle();
  EXPECT_EQ(daemon_.machine.held().size(), 1U);
  admitted(ask(100));
}

// The store is that of a backup, and the process came after it.
TEST_F(AdmissionTest, AProcessThatTheStoreDoesNotKnowAndThatUsesItsGpuBecomesAJob) {
  const model::JobId job = admitted(ask(1500));
  agent::HeldSlices unknown = daemon_.machine.held().front();
  daemon_.machine.leave(key(job));
  daemon_.settle();
  daemon_.kill();
  unknown.key = {model::JobId(9), 1, 0};
  unknown.user = "bob";
  unknown.name = "later";
  daemon_.machine.hold(unknown);
  daemon_.machine.in_use = true;
  daemon_.open();
  daemon_.settle();
  const model::Job adopted = daemon_.stored(model::JobId(10));
  EXPECT_EQ(adopted.state, JobState::kRunning);
  EXPECT_EQ(adopted.owner, "bob");
  EXPECT_EQ(daemon_.machine.held().front().key, key(model::JobId(10)));
  const Answer given = answer(ask(1000));
  ASSERT_TRUE(given && *given) << "what it holds counts";
  EXPECT_TRUE(std::holds_alternative<NotNow>(**given));
}

TEST_F(AdmissionTest, AdoptsSlicesWithoutAJob) {
  const model::JobId job = admitted(ask(500));
  agent::HeldSlices old = daemon_.machine.held().front();
  daemon_.machine.leave(key(job));
  daemon_.settle();
  daemon_.kill();
  old.key = {};
  old.name = "notebook";
  old.user = "bob";
  daemon_.machine.hold(old);
  daemon_.open();
  daemon_.settle();
  const model::Job adopted = daemon_.stored(model::JobId(2));
  EXPECT_EQ(adopted.state, JobState::kRunning);
  EXPECT_EQ(adopted.owner, "bob");
  EXPECT_EQ(adopted.spec.name, "notebook");
  EXPECT_EQ(daemon_.machine.held().front().key, key(model::JobId(2)));
  const Answer given = answer(ask(2000));
  ASSERT_TRUE(given && *given) << "what it holds counts";
  EXPECT_TRUE(std::holds_alternative<NotNow>(**given));
}

TEST_F(AdmissionTest, ResizesAreBookedAndCheckedLikeNewSlices) {
  const model::JobId job = admitted(ask(500));
  admitted(ask(300));
  const auto slices = [&](std::uint32_t share) {
    const model::Slice now = daemon_.stored(job).members[0].slices[0];
    return std::vector{
        model::Slice::create(now.gpu(), portion(gib(80), Share(share)), Share(share), now.kind())
            .value()};
  };
  EXPECT_TRUE(daemon_.dispatcher->resize(job, slices(700), "ada").has_value());
  EXPECT_FALSE(daemon_.dispatcher->resize(job, slices(800), "ada").has_value());
  daemon_.settle();
  EXPECT_EQ(daemon_.stored(job).members[0].slices[0].share(), Share(700));
}

// Whoever asks, waits, gives up, ends, is deleted, while the daemon is killed in between: in the
// end nobody holds anything, and nobody was given more than there is.
TEST_F(AdmissionTest, AnyHistoryEndsWithNothingHeld) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    TestDaemon daemon;
    std::minstd_rand random(seed);
    const auto below = [&random](unsigned most) { return static_cast<unsigned>(random() % most); };
    std::vector<std::shared_ptr<Admission>> asked;
    for (int step = 0; step < 40; ++step) {
      const std::vector<agent::HeldSlices> held = daemon.machine.held();
      std::map<model::GpuUuid, std::uint32_t> shares;
      for (const agent::HeldSlices& one : held) {
        for (const model::Slice& slice : one.slices) {
          shares[slice.gpu()] += slice.share().thousandths();
        }
      }
      for (const auto& [gpu, share] : shares) EXPECT_LE(share, Share::kWhole);
      switch (below(8)) {
        case 0:
        case 1:
        case 2: {
          NewJob wanted(jobs::testing::spec(100 * (1 + below(20))));
          wanted.owner = below(2) == 0 ? "ada" : "bob";
          wanted.spec.holder = below(3) == 0 ? Holder::kSlice : Holder::kProcess;
          const auto admission = daemon.dispatcher->admit(wanted, {.pid = 7}, below(2) == 0);
          if (admission) asked.push_back(*admission);
          break;
        }
        case 3:
          daemon.submit(100 * (1 + below(10)));
          break;
        case 4:
          if (!asked.empty()) daemon.dispatcher->give_up(asked[below(asked.size())]);
          break;
        case 5:
          if (!held.empty()) {
            const agent::HeldSlices& one = held[below(held.size())];
            if (one.holder == Holder::kMembers) {
              if (daemon.runtime.lives(one.key)) daemon.runtime.end(one.key, 0);
            } else if (below(2) == 0) {
              daemon.machine.leave(one.key);
            } else {
              daemon.machine.leave_unseen(one.key);
            }
          }
          break;
        case 6:
          if (!held.empty()) {
            (void)daemon.dispatcher->cancel(held[below(held.size())].key.job, "root");
          }
          break;
        default:
          if (below(3) == 0) {
            daemon.kill();
            asked.clear();
            daemon.open();
          }
      }
      for (unsigned round = below(3); round > 0; --round) daemon.dispatcher->step();
    }
    for (const auto& admission : asked) daemon.dispatcher->give_up(admission);
    for (int round = 0; round < 50; ++round) {
      daemon.machine.reap();
      for (const agent::HeldSlices& one : daemon.machine.held()) {
        (void)daemon.dispatcher->cancel(one.key.job, "root");
      }
      daemon.clock.advance(std::chrono::seconds(60));
      daemon.settle();
    }
    EXPECT_TRUE(daemon.machine.held().empty());
    const auto left = *daemon.database->read(
        [](store::Connection& connection) { return store::JobTable(connection).unfinished(); });
    EXPECT_TRUE(left.empty()) << left.size() << ", first " << left.front().id.value() << " "
                              << to_string(left.front().state);
  }
}

}  // namespace
}  // namespace divvy::control
