// What the queue promises, on a whole machine: arrays, dependencies, retries, time limits, making
// way, gangs, quotas and idle jobs, with members that are real processes.
#include <signal.h>

#include "job_machine.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

class JobFeatures : public JobMachine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon(options());
  }
  [[nodiscard]] virtual std::vector<std::string> options() const { return {}; }

  std::string wait_kind(std::uint64_t id) {
    const json::object document = job(id);
    const json::value& waits = document.at("waits");
    return waits.is_null() ? std::string() : std::string(waits.at("kind").as_string());
  }
  bool waits_for(std::uint64_t id, const std::string& kind) {
    const bool so = eventually([&] { return wait_kind(id) == kind; });
    EXPECT_TRUE(so) << json::serialize(job(id));
    return so;
  }
};

TEST_F(JobFeatures, AnArrayRunsNoMoreTasksAtOnceThanItMay) {
  json::object array = gated("task", 0.1);
  array["array"] = {{"first", 0}, {"last", 6}, {"step", 2}, {"at_once", 2}};
  const auto first = submit(array);
  ASSERT_TRUE(becomes(first, "running"));
  ASSERT_TRUE(becomes(first + 1, "running"));
  ASSERT_TRUE(waits_for(first + 2, "array"));
  ASSERT_TRUE(waits_for(first + 3, "array"));
  EXPECT_EQ(job(first + 3).at("arrayIndex").to_number<int>(), 6);
  EXPECT_EQ(job(first + 3).at("array").to_number<std::uint64_t>(), first);
  ASSERT_TRUE(eventually([&] { return starts("task") == 2; }));
  open_gate("task");
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(becomes(first + i, "succeeded"));
  EXPECT_EQ(starts("task"), 4);
}

TEST_F(JobFeatures, AQueueGivesAndLimitsTheTime) {
  const Outcome set =
      divvy({"queue", "set", "research", "--default-time-limit", "10m", "--max-time-limit", "1h"});
  ASSERT_EQ(set.status, 0) << set.err;
  EXPECT_TRUE(has(divvy({"queue", "list", "-o", "wide"}).out, "MOST TIME"));
  json::object quick = gated("quick");
  quick["queue"] = "research";
  const auto id = submit(quick);
  EXPECT_EQ(job(id).at("spec").at("time_limit").as_string(), "10m");
  const Outcome much =
      divvy({"submit", "--queue", "research", "--gpu", "0.1", "--time-limit", "2h", "--", "true"});
  EXPECT_NE(much.status, 0);
  EXPECT_TRUE(has(much.err, "time_limit: 2h is more than the 1h that queue research allows"))
      << much.err;
  const Outcome longer = divvy({"update", std::to_string(id), "--time-limit", "61m"});
  EXPECT_NE(longer.status, 0);
  EXPECT_TRUE(has(longer.err, "1h1m is more than the 1h that queue research allows")) << longer.err;
  EXPECT_EQ(divvy({"update", std::to_string(id), "--time-limit", "30m"}).status, 0);
  EXPECT_EQ(job(id).at("spec").at("time_limit").as_string(), "30m");
  // Over a restart, and in the queues below.
  stop_daemon(SIGKILL);
  start_daemon();
  ASSERT_EQ(divvy({"queue", "set", "research/vision", "--gpu", "1"}).status, 0);
  json::object below = gated("below");
  below["queue"] = "research/vision";
  EXPECT_EQ(job(submit(below)).at("spec").at("time_limit").as_string(), "10m");
}

TEST_F(JobFeatures, TasksOfAnArrayKnowTheirIndex) {
  const std::string base = (folder() / "index.").string();
  const auto first =
      submit({{"gpu", 0.1},
              {"array", {{"first", 3}, {"last", 4}}},
              {"command", {"sh", "-c", "echo $DIVVY_ARRAY_ID > " + base + "$DIVVY_ARRAY_INDEX"}}});
  for (std::uint64_t i = 0; i < 2; ++i) EXPECT_TRUE(becomes(first + i, "succeeded"));
  EXPECT_EQ(read_file("index.3"), std::to_string(first) + "\n");
  EXPECT_EQ(read_file("index.4"), std::to_string(first) + "\n");
}

TEST_F(JobFeatures, AJobStartsAfterTheOneItWaitsFor) {
  const auto before = submit(gated("before"));
  json::object after = gated("after");
  after["after"] = json::array{before};
  const auto waiter = submit(after);
  ASSERT_TRUE(becomes(before, "running"));
  ASSERT_TRUE(waits_for(waiter, "dependency"));
  EXPECT_EQ(starts("after"), 0);
  open_gate("after");
  open_gate("before");
  EXPECT_TRUE(becomes(waiter, "succeeded"));
  EXPECT_EQ(state(before), "succeeded");
  // One that comes later, and waits for what has been: it need not.
  EXPECT_TRUE(becomes(submit({{"command", {"true"}}, {"after", {before}}}), "succeeded"));
}

TEST_F(JobFeatures, WhatFailedBeforeCancelsThoseThatNeededIt) {
  const auto fails = submit(gated("fails", 0.3, 1));
  json::object needs = waiting("needs");
  needs["after"] = json::array{fails};
  json::object needs_that = waiting("needs-that");
  const auto second = submit(needs);
  needs_that["after"] = json::array{second};
  const auto third = submit(needs_that);
  json::object cleans = {{"command", {"true"}}, {"after", {{{"job", fails}, {"kind", "failed"}}}}};
  const auto cleaner = submit(cleans);
  open_gate("fails");
  EXPECT_TRUE(becomes(second, "cancelled"));
  EXPECT_TRUE(becomes(third, "cancelled"));
  EXPECT_TRUE(becomes(cleaner, "succeeded"));
  EXPECT_EQ(starts("needs"), 0);
  EXPECT_EQ(starts("needs-that"), 0);
}

TEST_F(JobFeatures, AJobThatFailsIsTriedAgainAfterAPause) {
  // Fails twice, and then does what it should.
  const std::string file = (folder() / "tries").string();
  const std::string script = "echo x >> " + file + "; test $(wc -l < " + file + ") -ge 3";
  const auto id =
      submit({{"command", {"sh", "-c", script}}, {"retry", {{"most", 3}, {"pause", "1s"}}}});
  ASSERT_TRUE(waits_for(id, "back-off"));
  EXPECT_FALSE(job(id).at("notBeforeUnixMilliseconds").is_null());
  ASSERT_TRUE(becomes(id, "succeeded"));
  EXPECT_EQ(starts("tries"), 3);
  EXPECT_EQ(job(id).at("attempt").to_number<int>(), 3);
  EXPECT_EQ(job(id).at("failures").to_number<int>(), 2);
  const Answer attempts = ask("GET", "/v1/jobs/" + std::to_string(id) + "/attempts");
  EXPECT_EQ(attempts.body.at("items").as_array().size(), 3U);
}

TEST_F(JobFeatures, AJobThatKeepsFailingFailsInTheEnd) {
  json::object job_of = gated("hopeless", 0.3, 9);
  job_of["retry"] = {{"most", 1}, {"pause", "1s"}};
  open_gate("hopeless");
  const auto id = submit(job_of);
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_EQ(starts("hopeless"), 2);
  EXPECT_EQ(exit_code(id), 9);
}

TEST_F(JobFeatures, AJobIsEndedAtItsTimeLimit) {
  json::object endless = waiting("endless");
  endless["time_limit"] = "1s";
  const auto id = submit(endless);
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_TRUE(has(history(id), "its time was up")) << history(id);
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

TEST_F(JobFeatures, ASuspendedJobGivesItsGpuBackAndGoesOnWhenResumed) {
  const auto id = submit(gated("paused", 2));
  ASSERT_TRUE(becomes(id, "running"));
  ASSERT_TRUE(eventually([&] { return starts("paused") == 1; }));
  const std::string name = std::to_string(id);
  EXPECT_EQ(divvy({"suspend", name}).status, 0);
  ASSERT_TRUE(becomes(id, "suspended"));
  EXPECT_TRUE(becomes(submit({{"gpu", 2}, {"command", {"true"}}}), "succeeded")) << "there is room";
  EXPECT_TRUE(has(divvy({"get", name}).out, "suspended"));
  EXPECT_EQ(state(id), "suspended");
  open_gate("paused");
  EXPECT_EQ(divvy({"resume", name}).status, 0);
  EXPECT_TRUE(becomes(id, "succeeded"));
  EXPECT_EQ(starts("paused"), 2);
  EXPECT_EQ(job(id).at("failures").to_number<int>(), 0);
}

TEST_F(JobFeatures, AChangedJobIsAsItWasChangedAfterAKill) {
  const auto first = submit(gated("first", 2));
  ASSERT_TRUE(becomes(first, "running"));
  const auto second = submit(waiting("second", 2));
  const std::string id = std::to_string(second);
  ASSERT_EQ(divvy({"queue", "set", "night", "--weight", "1"}).status, 0);
  const Outcome changed = divvy(
      {"update", id, "--gpu", "0.3", "--queue", "night", "--priority", "7", "--time-limit", "2h"});
  ASSERT_EQ(changed.status, 0) << changed.err;
  EXPECT_TRUE(has(changed.out, "queue night instead of default")) << changed.out;
  stop_daemon(SIGKILL);
  start_daemon();
  EXPECT_EQ(job(second).at("queue").as_string(), "night");
  EXPECT_EQ(job(second).at("priority").as_int64(), 7);
  EXPECT_EQ(job(second).at("shareThousandths").as_int64(), 300);
  EXPECT_TRUE(has(divvy({"list", "--queue", "night", "-o", "name"}).out, id + "\n"));
  EXPECT_TRUE(has(divvy({"events", "--job", id}).out, "priority 7 instead of 0"));
  const Outcome running = divvy({"update", std::to_string(first), "--gpu", "1"});
  EXPECT_EQ(running.status, 1);
  EXPECT_TRUE(has(running.err, "while it waits")) << running.err;
  open_gate("first");
  EXPECT_TRUE(becomes(second, "running"));
  const Outcome late = divvy({"update", std::to_string(first), "--priority", "1"});
  EXPECT_TRUE(has(late.err, "has ended")) << late.err;
}

TEST_F(JobFeatures, ARequeuedJobStartsAgain) {
  const auto id = submit(waiting("again"));
  ASSERT_TRUE(becomes(id, "running"));
  ASSERT_TRUE(eventually([&] { return starts("again") == 1; }));
  ASSERT_EQ(divvy({"requeue", std::to_string(id)}).status, 0);
  EXPECT_TRUE(eventually([&] { return starts("again") == 2; }));
  EXPECT_TRUE(becomes(id, "running"));
  EXPECT_EQ(job(id).at("failures").as_int64(), 0);
  EXPECT_TRUE(has(history(id), "requeued by"));
}

TEST_F(JobFeatures, ALowPriorityMakesWayForAHighOneAndRunsToItsEndLater) {
  const auto low = submit(gated("low", 2));
  ASSERT_TRUE(becomes(low, "running"));
  ASSERT_TRUE(eventually([&] { return starts("low") == 1; }));
  json::object urgent = gated("high", 2);
  urgent["priority"] = 100;
  const auto high = submit(urgent);
  ASSERT_TRUE(becomes(high, "running"));
  EXPECT_EQ(state(low), "queued");
  EXPECT_TRUE(has(history(low), "preempt")) << history(low);
  open_gate("low");
  open_gate("high");
  EXPECT_TRUE(becomes(high, "succeeded"));
  EXPECT_TRUE(becomes(low, "succeeded"));
  EXPECT_EQ(starts("low"), 2);
  EXPECT_EQ(job(low).at("failures").to_number<int>(), 0) << "that was not its fault";
}

TEST_F(JobFeatures, AJobThatIsToBeKeptMakesWayForNobody) {
  json::object kept = waiting("kept", 2);
  kept["preemptible"] = false;
  const auto low = submit(kept);
  ASSERT_TRUE(becomes(low, "running"));
  json::object urgent = waiting("urgent", 2);
  urgent["priority"] = 100;
  const auto high = submit(urgent);
  ASSERT_TRUE(waits_for(high, "full"));
  EXPECT_EQ(state(low), "running");
}

TEST_F(JobFeatures, AGangWaitsForAllItsGpusAndStartsTogether) {
  const auto before = submit(gated("before", 1));
  ASSERT_TRUE(becomes(before, "running"));
  const std::string base = (folder() / "rank.").string();
  const auto gang =
      submit({{"members", 2},
              {"gpu", 1},
              {"name", "gang"},
              {"command",
               {"sh", "-c",
                "echo $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR ${MASTER_PORT:+port} "
                "$OMPI_COMM_WORLD_RANK ${TF_CONFIG:+tf} > " +
                    base + "$RANK"}}});
  ASSERT_TRUE(waits_for(gang, "full"));
  EXPECT_EQ(tenants(), 1U) << "no member of the gang holds anything while it waits";
  EXPECT_TRUE(has(divvy({"get", std::to_string(gang)}).out, "queued"));
  open_gate("before");
  ASSERT_TRUE(becomes(gang, "succeeded"));
  EXPECT_EQ(read_file("rank.0"), "0 0 2 127.0.0.1 port 0 tf\n");
  EXPECT_EQ(read_file("rank.1"), "1 1 2 127.0.0.1 port 1 tf\n");
}

TEST_F(JobFeatures, WhenOneMemberOfAGangFailsTheOthersAreEnded) {
  const auto gang = submit({{"members", 2},
                            {"gpu", 1},
                            {"grace", "5s"},
                            {"command", {"sh", "-c", "[ $RANK = 0 ] || exit 4; exec sleep 1000"}}});
  ASSERT_TRUE(becomes(gang, "failed"));
  EXPECT_EQ(exit_code(gang, 1), 4);
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

TEST_F(JobFeatures, WhoseQuotaIsUsedUpWaitsAndIsToldSo) {
  const std::string me = std::string(ask("GET", "/v1/whoami").body.at("name").as_string());
  ASSERT_EQ(divvy({"quota", "set", me, "--gpu", "0.5"}).status, 0);
  const auto first = submit(waiting("first", 0.4));
  ASSERT_TRUE(becomes(first, "running"));
  const auto second = submit(waiting("second", 0.4));
  ASSERT_TRUE(waits_for(second, "quota"));
  const Outcome explained = divvy({"explain", std::to_string(second)});
  EXPECT_EQ(explained.status, 0) << explained.err;
  EXPECT_TRUE(has(explained.out, "0.5") && has(explained.out, me)) << explained.out;
  // More than there can ever be is refused at once.
  const Outcome never = divvy({"submit", "--gpu", "1", "--", "true"});
  EXPECT_NE(never.status, 0);
  EXPECT_TRUE(has(never.err, "0.5")) << never.err;
  ASSERT_EQ(divvy({"quota", "reset", me}).status, 0);
  EXPECT_TRUE(becomes(second, "running"));
}

TEST_F(JobFeatures, AQueueGetsItsPromiseBackFromThoseWhoBorrowedIt) {
  ASSERT_EQ(divvy({"queue", "set", "research", "--gpu", "2"}).status, 0);
  const auto borrower = submit(gated("borrower", 2));
  ASSERT_TRUE(becomes(borrower, "running"));
  json::object own = gated("own", 2);
  own["queue"] = "research";
  const auto owner = submit(own);
  ASSERT_TRUE(becomes(owner, "running"));
  EXPECT_EQ(state(borrower), "queued");
  open_gate("own");
  open_gate("borrower");
  EXPECT_TRUE(becomes(owner, "succeeded"));
  EXPECT_TRUE(becomes(borrower, "succeeded"));
}

// `divvy run` and slices that are held by a name.
class RunsAsJobs : public JobFeatures {
 protected:
  // The job of the only process or slice of that name.
  std::uint64_t job_of(const std::string& name) {
    std::uint64_t id = 0;
    EXPECT_TRUE(eventually([&] {
      const json::object list = ask("GET", "/v1/jobs").body;
      for (const json::value& item : list.at("items").as_array()) {
        if (item.at("name").as_string() == name) id = item.at("id").to_number<std::uint64_t>();
      }
      return id != 0;
    }));
    return id;
  }
  Program run(const std::string& name, std::vector<std::string> how) {
    how.insert(how.begin(), {"run", "--name", name});
    how.insert(how.end(), {"--", "/bin/sleep", "1000"});
    return start_divvy(how, name);
  }
};

TEST_F(RunsAsJobs, AreListedCountedAndEndedLikeOthers) {
  Program process = run("mine", {"--gpu", "0.5"});
  const auto id = job_of("mine");
  ASSERT_TRUE(becomes(id, "running"));
  EXPECT_EQ(job(id).at("spec").at("holder").as_string(), "process");
  EXPECT_NE(divvy({"suspend", std::to_string(id)}).status, 0);
  const Outcome logs = divvy({"logs", std::to_string(id)});
  EXPECT_TRUE(has(logs.err, "divvy run")) << logs.err;
  EXPECT_EQ(divvy({"delete", std::to_string(id)}).status, 0);
  EXPECT_EQ(process.finish().status, -SIGTERM);
  EXPECT_TRUE(becomes(id, "cancelled"));
  EXPECT_EQ(tenants(), 0U);
}

TEST_F(RunsAsJobs, StandInOneLineWithJobsUnderOneQuota) {
  const std::string me = std::string(ask("GET", "/v1/whoami").body.at("name").as_string());
  ASSERT_EQ(divvy({"quota", "set", me, "--gpu", "0.9"}).status, 0);
  Program process = run("first", {"--gpu", "0.5"});
  ASSERT_TRUE(becomes(job_of("first"), "running"));
  ASSERT_EQ(divvy({"slice", "create", "held", "--gpu", "0.3"}).status, 0);
  const Outcome refused = divvy({"run", "--gpu", "0.2", "--", "/bin/true"});
  EXPECT_EQ(refused.status, 75);
  EXPECT_TRUE(has(refused.err, "0.9")) << refused.err;
  const Outcome more = divvy({"slice", "create", "more", "--gpu", "0.2"});
  EXPECT_EQ(more.status, 75);
  EXPECT_TRUE(has(more.err, "0.9")) << more.err;
  EXPECT_FALSE(has(more.err, "--wait")) << "it has no such option";
  const auto waiting_job = submit(gated("second", 0.2));
  ASSERT_TRUE(waits_for(waiting_job, "quota"));
  Program third = run("third", {"--gpu", "0.3", "--queue", "default"});
  const auto third_id = job_of("third");
  ASSERT_TRUE(waits_for(third_id, "quota"));
  ASSERT_EQ(divvy({"slice", "delete", "held"}).status, 0);
  EXPECT_TRUE(becomes(waiting_job, "running")) << "it came before";
  EXPECT_EQ(state(third_id), "queued");
  open_gate("second");
  EXPECT_TRUE(becomes(third_id, "running"));
  third.signal(SIGKILL);
  EXPECT_TRUE(becomes(third_id, "succeeded"));
  EXPECT_TRUE(has(history(third_id), "its process has ended")) << history(third_id);
}

TEST_F(RunsAsJobs, AreThereAfterTheDaemonWasKilled) {
  Program process = run("stays", {"--gpu", "0.5"});
  const auto stays = job_of("stays");
  ASSERT_TRUE(becomes(stays, "running"));
  ASSERT_EQ(divvy({"slice", "create", "held", "--gpu", "0.3"}).status, 0);
  Program goes = run("goes", {"--gpu", "0.2"});
  const auto gone = job_of("goes");
  ASSERT_TRUE(becomes(gone, "running"));
  stop_daemon(SIGKILL);
  goes.signal(SIGKILL);
  (void)goes.finish();
  start_daemon();
  EXPECT_TRUE(becomes(gone, "succeeded"));
  EXPECT_EQ(state(stays), "running");
  EXPECT_EQ(state(job_of("held")), "running");
  EXPECT_EQ(tenants(), 2U);
  process.signal(SIGKILL);
  EXPECT_TRUE(becomes(stays, "succeeded"));
}

TEST_F(JobFeatures, AMemberInheritsNoDescriptorOfTheDaemon) {
  // Whoever watches has a connection that is open while the member is started.
  Program watcher = start_divvy({"list", "--watch"}, "watch");
  const auto first = submit(gated("first", 1));
  ASSERT_TRUE(eventually([&] { return has(watcher.printed(), "first"); }));
  open_gate("first");
  ASSERT_TRUE(becomes(first, "succeeded"));
  const std::string file = (folder() / "open").string();
  const auto id = submit({{"command", {"sh", "-c", "ls -m /proc/self/fd > " + file}}});
  ASSERT_TRUE(becomes(id, "succeeded"));
  EXPECT_EQ(read_file("open"), "0, 1, 2, 3\n") << "the last one is the folder that is listed";
}

TEST_F(JobFeatures, AnAttemptThatRanIsInTheAccount) {
  const auto id = submit(gated("counted", 1));
  ASSERT_TRUE(becomes(id, "running"));
  open_gate("counted");
  ASSERT_TRUE(becomes(id, "succeeded"));
  const std::string path = "/v1/usage?by=job&job=" + std::to_string(id);
  ASSERT_TRUE(eventually([&] { return !ask("GET", path).body.at("items").as_array().empty(); }));
  const json::object usage = ask("GET", path).body;
  EXPECT_GT(usage.at("items").at(0).at("heldShareThousandthSeconds").to_number<std::uint64_t>(),
            0U);
  const Outcome csv = divvy({"usage", "--by", "job", "-o", "csv"});
  EXPECT_TRUE(csv.out.starts_with("job,jobs,gpu_hours_held,")) << csv.out << csv.err;
}

// --- Idle jobs ---

class SpreadJobs : public JobFeatures {
 protected:
  [[nodiscard]] std::vector<std::string> options() const override {
    return {"--set", "queue.policy=spread"};
  }
};

TEST_F(SpreadJobs, GoWhereTheMostIsLeft) {
  const auto first = submit(waiting("first"));
  const auto second = submit(waiting("second"));
  ASSERT_TRUE(becomes(first, "running"));
  ASSERT_TRUE(becomes(second, "running"));
  const auto gpu = [this](std::uint64_t id) {
    return json::serialize(job(id).at("running").at(0).at("slices").at(0).at("gpu"));
  };
  EXPECT_NE(gpu(first), gpu(second));
}

class IdleJobs : public JobFeatures {
 protected:
  [[nodiscard]] std::vector<std::string> options() const override {
    return {"--set", "queue.idle_after=4s", "--set", "queue.idle_warning=3s"};
  }
};

TEST_F(IdleJobs, AreWarnedShownWithTheTimeLeftAndEnded) {
  const auto id = submit(waiting("idle"));
  ASSERT_TRUE(becomes(id, "running"));
  ASSERT_TRUE(eventually([&] { return !job(id).at("idleLeftSeconds").is_null(); }));
  EXPECT_LE(job(id).at("idleLeftSeconds").to_number<int>(), 3);
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_TRUE(has(history(id), "it did not use its GPU")) << history(id);
  EXPECT_TRUE(has(daemon_log(), "does not use it")) << "the warning";
  const Outcome events = divvy({"events", "--job", std::to_string(id)});
  EXPECT_TRUE(has(events.out, "unless it does")) << events.out << events.err;
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

class BusyJobs : public JobFeatures {
 protected:
  // Long enough to begin with the work on a slow machine.
  [[nodiscard]] std::vector<std::string> options() const override {
    return {"--set", "queue.idle_after=10s", "--set", "queue.idle_warning=3s"};
  }
};

TEST_F(BusyJobs, AreNotTakenForIdleOnes) {
  // It works for longer than an idle job may be there, and then ends by itself.
  const auto id = submit({{"gpu", 0.5}, {"command", {GPULOAD_PROGRAM, "spin", "--seconds", "14"}}});
  ASSERT_TRUE(becomes(id, "succeeded")) << history(id);
}

}  // namespace
}  // namespace divvy::testing
