// Killed at any moment, everything that was acknowledged is there afterwards.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>
#include <set>
#include <thread>

#include "store/job_table.h"
#include "store/submission.h"
#include "store/testing.h"

namespace divvy::store {
namespace {

// What the child says when something is on the disk: a job, and its attempt once it has one.
struct Acknowledged {
  std::uint64_t job = 0;
  std::uint32_t attempt = 0;
};

// Submits jobs from several threads and starts each of them, until it is killed.
[[noreturn]] void work_until_killed(const std::filesystem::path& file, int pipe) {
  auto database = Database::open(file);
  if (!database) ::_exit(1);
  const auto tell = [pipe](const Acknowledged& message) {
    if (::write(pipe, &message, sizeof message) != sizeof message) ::_exit(2);
  };
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        std::optional<model::Job> job;
        const Status submitted = (*database)->commit([&](Connection& connection) -> Status {
          DIVVY_TRY(done, submit(connection, test_submission()));
          job = done.jobs.front();
          return {};
        });
        if (!submitted) ::_exit(3);
        tell({job->id.value(), 0});
        job->attempt = 1;
        job->members.push_back({.rank = 0, .node = "node-a", .slices = {}, .end = {}});
        if (!job->become(model::JobState::kStarting, at_second(2), "placed")) ::_exit(4);
        const Status started = (*database)->commit(
            [&](Connection& connection) { return JobTable(connection).update(*job); });
        if (!started) ::_exit(5);
        tell({job->id.value(), 1});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ::_exit(6);
}

class Durability : public StoreTest {
 protected:
  // Starts a child, reads `count` acknowledgements, kills it, and reads the rest.
  void run_and_kill(std::size_t count, std::map<std::uint64_t, std::uint32_t>& acknowledged) const {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      work_until_killed(file(), ends[1]);
    }
    ::close(ends[1]);
    Acknowledged message;
    for (std::size_t i = 0;; ++i) {
      if (i == count) {
        ASSERT_EQ(::kill(child, SIGKILL), 0);
      }
      const ssize_t size = ::read(ends[0], &message, sizeof message);
      if (size != sizeof message) break;
      auto& attempt = acknowledged[message.job];
      attempt = std::max(attempt, message.attempt);
    }
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
  }
};

TEST_F(Durability, KilledAtRandomMomentsLosesNothingThatWasAcknowledged) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  std::map<std::uint64_t, std::uint32_t> acknowledged;
  for (int round = 0; round < 15; ++round) {
    run_and_kill(std::uniform_int_distribution<std::size_t>(1, 60)(random), acknowledged);
    if (HasFatalFailure()) return;
    auto database = Database::open(file());
    ASSERT_TRUE(database.has_value()) << database.error().message;
    ASSERT_TRUE((*database)->check());
    const auto jobs =
        (*database)
            ->read([](Connection& connection) { return JobTable(connection).unfinished(); })
            .value();
    std::set<std::uint64_t> found;
    for (const model::Job& job : jobs) {
      EXPECT_TRUE(found.insert(job.id.value()).second) << "twice: " << job.id.value();
      // A change is there whole or not at all.
      EXPECT_EQ(job.history.size(), job.attempt + 1U);
      EXPECT_EQ(job.members.size(), job.attempt);
      const auto told = acknowledged.find(job.id.value());
      if (told != acknowledged.end()) {
        EXPECT_GE(job.attempt, told->second) << job.id.value();
      }
    }
    for (const auto& [id, attempt] : acknowledged) {
      EXPECT_TRUE(found.contains(id)) << "job " << id << " was acknowledged and is lost";
    }
  }
  EXPECT_FALSE(acknowledged.empty());
}

}  // namespace
}  // namespace divvy::store
