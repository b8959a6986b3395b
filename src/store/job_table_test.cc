#include "store/job_table.h"

#include <gtest/gtest.h>

#include "model/testing.h"
#include "store/testing.h"

namespace divvy::store {
namespace {

using model::Job;
using model::JobId;
using model::JobState;

class JobTableTest : public TableTest {
 protected:
  void insert(const Job& job) const {
    commit([&](Connection& connection) { return JobTable(connection).insert(job); });
  }
  void update(const Job& job) const {
    commit([&](Connection& connection) { return JobTable(connection).update(job); });
  }
  [[nodiscard]] std::optional<Job> find(std::uint64_t id) const {
    return read([id](Connection& connection) { return JobTable(connection).find(JobId(id)); });
  }
  [[nodiscard]] std::vector<std::uint64_t> list(const JobFilter& filter) const {
    std::vector<std::uint64_t> ids;
    const JobPage page =
        read([&](Connection& connection) { return JobTable(connection).list(filter); });
    for (const Job& job : page.jobs) ids.push_back(job.id.value());
    return ids;
  }
  static model::JobMember member(std::uint32_t rank) {
    return {.rank = rank,
            .node = "node-a",
            .slices = {model::Slice::create(model::test_uuid(rank), gib(10), Share(300),
                                            model::ShareKind::kCap)
                           .value()},
            .end = {}};
  }
};

using Ids = std::vector<std::uint64_t>;

TEST_F(JobTableTest, AJobComesBackAsItWas) {
  Job job = test_job(7);
  job.task = model::ArrayTask{.array = JobId(5), .index = 3, .at_once = 2};
  job.state = JobState::kStopping;
  job.stopping = model::StopReason::kPreempted;
  job.attempt = 2;
  job.failures = 1;
  job.not_before = at_second(5);
  job.started = at_second(6);
  job.ended = at_second(7);
  job.members = {member(0), member(1)};
  job.members[1].end = model::MemberEnd{.at = at_second(9),
                                        .exit_code = 137,
                                        .signal = 9,
                                        .reason = "killed",
                                        .use = {std::chrono::milliseconds(1500), mib(64), gib(3)}};
  job.history.push_back({at_second(2), JobState::kStarting, "placed on \"node-a\""});
  insert(job);
  EXPECT_EQ(find(7), job);
  EXPECT_EQ(find(8), std::nullopt);
}

TEST_F(JobTableTest, AChangedPriorityIsKept) {
  Job job = test_job(1);
  insert(job);
  job.spec.priority += 5;
  update(job);
  EXPECT_EQ(find(1), job);
}

TEST_F(JobTableTest, EveryStepIsKeptOnce) {
  Job job = test_job(1);
  insert(job);
  for (const JobState next :
       {JobState::kStarting, JobState::kRunning, JobState::kStopping, JobState::kQueued}) {
    ASSERT_TRUE(job.become(next, at_second(10), "because"));
    update(job);
    EXPECT_EQ(find(1), job);
  }
  EXPECT_EQ(find(1)->history.size(), 5U);
}

TEST_F(JobTableTest, MembersOfEarlierAttemptsAreKept) {
  Job job = test_job(1);
  insert(job);
  job.attempt = 1;
  job.members = {member(0), member(1)};
  update(job);
  const auto first = job.members;
  job.attempt = 2;
  job.started = at_second(6);
  job.members = {member(0)};
  update(job);
  EXPECT_EQ(find(1), job);
  const auto attempts =
      read([](Connection& connection) { return JobTable(connection).attempts(JobId(1)); });
  EXPECT_EQ(attempts, (std::vector<JobAttempt>{{1, first, {}}, {2, job.members, at_second(6)}}));
}

TEST_F(JobTableTest, RefusesADuplicateInsertAndTheUpdateOfAMissingJob) {
  insert(test_job(1));
  const Status twice = database_->commit(
      [](Connection& connection) { return JobTable(connection).insert(test_job(1)); });
  EXPECT_EQ(twice.error().code, ErrorCode::kAlreadyExists);
  const Status nothing = database_->commit(
      [](Connection& connection) { return JobTable(connection).update(test_job(2)); });
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
}

TEST_F(JobTableTest, IdsAreNeverGivenTwice) {
  insert(test_job(4));
  Job ended = test_job(5);
  ended.state = JobState::kFailed;
  ended.ended = at_second(1);
  insert(ended);
  commit([](Connection& connection) -> Status {
    DIVVY_TRY(gone, JobTable(connection).prune(at_second(2), std::nullopt));
    EXPECT_EQ(gone, (std::vector<JobId>{JobId(5)}));
    DIVVY_TRY(next, JobTable(connection).next_id());
    EXPECT_EQ(next, JobId(6));
    return {};
  });
}

TEST_F(JobTableTest, ListsWhatTheFilterAsksFor) {
  Job job = test_job(1);
  insert(job);
  job = test_job(2);
  job.owner = "bob";
  job.spec.queue = "research";
  insert(job);
  job = test_job(3);
  job.spec.queue = "research/vision";
  job.state = JobState::kRunning;
  insert(job);
  job = test_job(4);
  job.spec.queue = "research-2";
  job.spec.name = "other";
  job.state = JobState::kFailed;
  job.task = model::ArrayTask{.array = JobId(4), .index = 0};
  insert(job);

  EXPECT_EQ(list({}), (Ids{4, 3, 2, 1}));
  JobFilter filter;
  filter.newest_first = false;
  EXPECT_EQ(list(filter), (Ids{1, 2, 3, 4}));
  filter.owner = "bob";
  EXPECT_EQ(list(filter), (Ids{2}));
  filter = {};
  filter.queue = "research";
  EXPECT_EQ(list(filter), (Ids{3, 2})) << "with the queues below, and no other";
  filter = {};
  filter.states = {JobState::kRunning, JobState::kFailed};
  EXPECT_EQ(list(filter), (Ids{4, 3}));
  filter.name = "other";
  EXPECT_EQ(list(filter), (Ids{4}));
  filter = {};
  filter.array = JobId(4);
  EXPECT_EQ(list(filter), (Ids{4}));
  filter = {};
  filter.submitted_since = at_second(1002);
  filter.submitted_before = at_second(1004);
  EXPECT_EQ(list(filter), (Ids{3, 2}));
  filter = {};
  filter.owner = "x' OR '1'='1";
  EXPECT_EQ(list(filter), Ids{});

  const auto counts = read([](Connection& connection) { return JobTable(connection).counts(); });
  EXPECT_EQ(counts, (std::map<JobState, std::uint64_t>{
                        {JobState::kQueued, 2}, {JobState::kRunning, 1}, {JobState::kFailed, 1}}));
}

TEST_F(JobTableTest, PagesShowEveryJobOnceWhileJobsComeAndGo) {
  for (std::uint64_t id = 1; id <= 25; ++id) insert(test_job(id));
  Ids seen;
  JobFilter filter;
  filter.limit = 10;
  std::uint64_t next_id = 26;
  for (;;) {
    const JobPage page =
        read([&](Connection& connection) { return JobTable(connection).list(filter); });
    for (const Job& job : page.jobs) seen.push_back(job.id.value());
    if (!page.next) break;
    filter.after = page.next;
    insert(test_job(next_id++));  // The newest come first: nothing moves behind
  }
  Ids expected;
  for (std::uint64_t id = 25; id >= 1; --id) expected.push_back(id);
  EXPECT_EQ(seen, expected);
}

TEST_F(JobTableTest, ReadsUnfinishedJobsAfterARestart) {
  std::uint64_t id = 0;
  for (const JobState state :
       {JobState::kSucceeded, JobState::kQueued, JobState::kStarting, JobState::kCancelled,
        JobState::kRunning, JobState::kStopping, JobState::kSuspended, JobState::kFailed}) {
    Job job = test_job(++id);
    job.state = state;
    insert(job);
  }
  Ids ids;
  for (const Job& job :
       read([](Connection& connection) { return JobTable(connection).unfinished(); })) {
    EXPECT_FALSE(is_finished(job.state));
    ids.push_back(job.id.value());
  }
  EXPECT_EQ(ids, (Ids{2, 3, 5, 6, 7}));
}

TEST_F(JobTableTest, SaysWhatBecameOfAJobOrOfAllTasksOfAnArray) {
  Job job = test_job(1);
  job.state = JobState::kFailed;
  insert(job);
  for (std::uint32_t i = 0; i < 2; ++i) {
    job = test_job(2 + i);
    job.task = model::ArrayTask{.array = JobId(2), .index = i};
    insert(job);
  }
  const auto outcomes = [this](std::uint64_t id) {
    return read([id](Connection& connection) { return JobTable(connection).outcomes(JobId(id)); });
  };
  using Outcomes = std::vector<JobOutcome>;
  EXPECT_EQ(outcomes(1), (Outcomes{{JobId(1), {}, JobState::kFailed}}));
  EXPECT_EQ(outcomes(2), (Outcomes{{JobId(2), JobId(2), JobState::kQueued},
                                   {JobId(3), JobId(2), JobState::kQueued}}));
  EXPECT_EQ(outcomes(3), (Outcomes{{JobId(3), JobId(2), JobState::kQueued}}));
  EXPECT_EQ(outcomes(9), Outcomes{});
}

TEST_F(JobTableTest, PrunesOnlyWhatHasEndedBefore) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    Job job = test_job(id);
    if (id != 1) {
      job.state = JobState::kSucceeded;
      job.ended = at_second(static_cast<int>(id));
    }
    if (id == 3) job.owner = "bob";
    insert(job);
  }
  const auto prune = [this](const std::optional<std::string>& owner) {
    std::vector<JobId> gone;
    commit([&](Connection& connection) -> Status {
      DIVVY_TRY(pruned, JobTable(connection).prune(at_second(4), owner));
      gone = pruned;
      return {};
    });
    return gone;
  };
  EXPECT_EQ(prune("ada"), (std::vector<JobId>{JobId(2)}));
  EXPECT_EQ(prune(std::nullopt), (std::vector<JobId>{JobId(3)}));
  EXPECT_EQ(list({}), (Ids{4, 1}));
  EXPECT_EQ(read([](Connection& connection) {
              return connection.number("SELECT count(*) FROM job_steps");
            }),
            2)
      << "what belonged to them is gone too";
}

TEST_F(JobTableTest, KeepsWhatOthersWaitForAndTasksOfAnArrayThatIsNotOver) {
  const auto ended = [](std::uint64_t id) {
    Job job = test_job(id);
    job.state = JobState::kSucceeded;
    job.ended = at_second(static_cast<int>(100 - id));  // The last one first
    return job;
  };
  for (std::uint64_t id = 1; id <= 3; ++id) insert(ended(id));
  Job waits = test_job(4);
  waits.spec.after = {{JobId(2), model::DependencyKind::kSucceeded}};
  insert(waits);
  Job waited = ended(5);
  waited.spec.after = {{JobId(1), model::DependencyKind::kSucceeded}};
  insert(waited);  // It has ended itself: nobody waits for 1
  Job task = ended(6);
  task.task = model::ArrayTask{.array = JobId(6), .index = 0, .at_once = 0};
  insert(task);
  Job other = test_job(7);
  other.task = model::ArrayTask{.array = JobId(6), .index = 1, .at_once = 0};
  insert(other);
  const auto old = [this](std::uint32_t most) {
    return read([most](Connection& connection) {
      return JobTable(connection).old_jobs(at_second(1000), std::nullopt, most);
    });
  };
  EXPECT_EQ(old(10), (std::vector<JobId>{JobId(5), JobId(3), JobId(1)}))
      << "in order of their ends";
  EXPECT_EQ(old(1), (std::vector<JobId>{JobId(5)}));
  // An array as a whole can be waited for.
  other.state = JobState::kFailed;
  other.ended = at_second(1);
  update(other);
  EXPECT_EQ(old(2), (std::vector<JobId>{JobId(7), JobId(6)}));
  waits.spec.after = {{JobId(6), model::DependencyKind::kEnded}};
  update(waits);
  EXPECT_EQ(old(10), (std::vector<JobId>{JobId(5), JobId(3), JobId(2), JobId(1)}));
  EXPECT_EQ(read([](Connection& connection) { return JobTable(connection).end_behind(5); }),
            at_second(1));
  EXPECT_EQ(read([](Connection& connection) { return JobTable(connection).end_behind(6); }),
            std::nullopt);
}

TEST_F(JobTableTest, ASpecThatCannotBeReadIsNamedAsDamage) {
  insert(test_job(1));
  commit([](Connection& connection) {
    return connection.execute("UPDATE jobs SET spec = '{\"gpu\":-1}'");
  });
  const auto found =
      database_->read([](Connection& connection) { return JobTable(connection).find(JobId(1)); });
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(found.error().message.find("job 1"), std::string::npos);
}

}  // namespace
}  // namespace divvy::store
