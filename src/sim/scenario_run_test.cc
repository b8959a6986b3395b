#include "sim/scenario_run.h"

#include <gtest/gtest.h>

#include "place/lots.h"
#include "sim/scenario_report.h"

namespace divvy::sim {
namespace {

ScenarioReport run(std::string_view text, const std::optional<std::string>& policy = {}) {
  const auto scenario = parse_scenario(text, "test.scenario");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  if (!scenario) return {};
  auto report = run_scenario(*scenario, policy);
  EXPECT_TRUE(report.has_value()) << report.error().message;
  return report ? *std::move(report) : ScenarioReport{};
}

std::string refused(std::string_view text) {
  const auto scenario = parse_scenario(text, "test.scenario");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  const auto report = run_scenario(*scenario);
  return report ? "accepted" : report.error().message;
}

TEST(ScenarioRun, TellsWhatHappenedAndWhatWasExpected) {
  const ScenarioReport report =
      run("policy bestfit\n"
          "node a gpus=2\n"
          "submit one gpus=1 lasts=10\n"
          "submit two gpus=2 lasts=20\n"
          "expect two runs\n"
          "expect two waits \"1 GPU wholly free\"\n"
          "expect two waits \"somebody else's fault\"\n"
          "at 10 expect two on a gpu 0,1\n");
  EXPECT_EQ(report.end, 30);
  EXPECT_NEAR(report.gpu_use, (10.0 + 40.0) / 60.0, 1e-9);
  ASSERT_EQ(report.jobs.size(), 2U);
  EXPECT_EQ(report.jobs[1].state, model::JobState::kSucceeded);
  EXPECT_EQ(report.jobs[1].started, 10);
  EXPECT_EQ(report.jobs[1].ended, 30);
  ASSERT_EQ(report.expectations.size(), 4U);
  EXPECT_FALSE(report.expectations[0].passed);
  EXPECT_EQ(report.expectations[0].line, 5U);
  EXPECT_TRUE(report.expectations[0].found.starts_with("two waits: a: 1 GPU wholly free"))
      << report.expectations[0].found;
  EXPECT_TRUE(report.expectations[1].passed);
  EXPECT_FALSE(report.expectations[2].passed);
  EXPECT_TRUE(report.expectations[3].passed) << report.expectations[3].found;
  EXPECT_EQ(report.failed(), 2U);
}

TEST(ScenarioRun, TheSameLinesGiveTheSameReport) {
  const std::string_view text =
      "nodes n count=4 gpus=4\n"
      "submit a gpus=2.5 lasts=7\nsubmit b gpus=1 members=6 lasts=9 priority=2\n"
      "at 3 submit c gpus=4 members=3 lasts=2 priority=1\nat 4 lose n-1\nat 6 return n-1\n";
  EXPECT_EQ(to_json(run(text)), to_json(run(text)));
}

TEST(ScenarioRun, AnotherPolicyCanBeTried) {
  const std::string_view text = "policy bestfit\nnode a gpus=2\nsubmit j gpus=1\n";
  EXPECT_EQ(run(text).policy, "bestfit");
  EXPECT_EQ(run(text, "fgd").policy, "fgd");
  const auto scenario = parse_scenario(text, "x");
  EXPECT_FALSE(run_scenario(*scenario, "nonsense").has_value());
}

TEST(ScenarioRun, RefusesWhatMakesNoSenseWhenItComes) {
  EXPECT_EQ(refused("node a gpus=1\nsubmit j gpus=1\nsubmit k gpus=1\nfinish k\n"),
            "test.scenario:4: job k is queued and cannot finish; it can while it runs");
  EXPECT_EQ(refused("node a gpus=1\nsubmit j gpus=1 lasts=5\nat 9 cancel j\n"),
            "test.scenario:3: job j has ended already");
  EXPECT_EQ(refused("node a\nlose a\nlose a\n"),
            "test.scenario:3: node a is lost already; let it return first");
  EXPECT_EQ(refused("node a\nreturn a\n"), "test.scenario:2: node a is not lost; lose it first");
  EXPECT_EQ(refused("node a\nsubmit j gpus=1\nresume j\n"),
            "test.scenario:3: j (1) is running, not suspended");
  EXPECT_EQ(refused("queue q quota=2 borrow=no\nnode a\nsubmit j gpus=3 queue=q\n"),
            "test.scenario:3: request: queue q may have at most 2 GPU at one time");
  EXPECT_EQ(refused("node a\nsubmit j gpus=1\ndefrag j\n"),
            "test.scenario:3: job j does not wait for a place, and needs no defragmentation");
}

TEST(ScenarioRun, ANodeThatIsLostAndCordonedStaysClosed) {
  const ScenarioReport report =
      run("node a gpus=1\ncordon a maintenance\nlose a power\nreturn a\n"
          "submit j gpus=1\nexpect j waits \"cordoned: maintenance\"\nuncordon a\nexpect j runs\n");
  EXPECT_EQ(report.failed(), 0U);
}

// A job that waits with a time has it kept, whatever comes later.
TEST(ScenarioRun, AReservedGangStartsWhenItWasPromised) {
  int reserved = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    place::Lots lots(seed);
    std::string text = "policy bestfit\npreemption off\nnodes n count=3 gpus=4\n";
    for (int i = 0; i < 8; ++i) {
      const auto gpus = 1 + lots.below(2);
      const auto lasts = 20 + lots.below(60);
      text += fmt::format("submit first-{} gpus={} lasts={}\n", i, gpus, lasts);
    }
    text += "submit gang gpus=4 members=3 lasts=10\nexpect gang reserved\n";
    const auto scenario = parse_scenario(text, "x");
    ASSERT_TRUE(scenario.has_value());
    const auto before = run_scenario(*scenario);
    ASSERT_TRUE(before.has_value());
    // Somebody else waits in front of it and has the one reservation.
    if (before->failed() != 0) continue;
    ++reserved;
    const auto promised = before->jobs.back().started;
    for (int i = 0; i < 40; ++i) {
      const auto gpus = 1 + lots.below(2);
      const auto lasts = 1 + lots.below(50);
      text += fmt::format("at {} submit small-{} gpus={} lasts={}\n", i, i, gpus, lasts);
    }
    const ScenarioReport after = run(text);
    EXPECT_EQ(after.jobs[8].started, promised) << seed;
  }
  EXPECT_GT(reserved, 10);
}

// Whatever happens, no job is lost and none runs in two places.
TEST(ScenarioRun, EveryJobEndsInAStormOfFaults) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    place::Lots lots(seed);
    std::string text = "nodes n count=4 gpus=4 nvlink=0,1/2,3\nreservations 2\n";
    std::array<bool, 4> lost{};
    for (std::uint32_t time = 1; time < 60; ++time) {
      const std::uint32_t node = lots.below(4);
      switch (lots.below(6)) {
        case 0:
          text += fmt::format("at {} {} n-{}\n", time, lost[node] ? "return" : "lose", node);
          lost[node] = !lost[node];
          break;
        case 1:
          text += fmt::format("at {} {} n-{} gpu {}\n", time,
                              lots.below(2) == 0 ? "healthy" : "unhealthy", node, lots.below(4));
          break;
        default:
          text +=
              fmt::format("at {} submit j{} gpus={} members={} priority={} lasts={}{}\n", time,
                          time, lots.below(2) == 0 ? "0.5" : "2", 1 + lots.below(3), lots.below(3),
                          1 + lots.below(20), lots.below(2) == 0 ? " near=nvlink" : "");
      }
    }
    for (std::size_t node = 0; node < lost.size(); ++node) {
      if (lost[node]) text += fmt::format("at 60 return n-{}\n", node);
      for (int gpu = 0; gpu < 4; ++gpu)
        text += fmt::format("at 60 healthy n-{} gpu {}\n", node, gpu);
    }
    const ScenarioReport report = run(text);
    for (const ScenarioJobOutcome& job : report.jobs) {
      EXPECT_EQ(job.state, model::JobState::kSucceeded) << seed << " " << job.name;
    }
  }
}

// With queues, users, quotas, dependencies and retries as well: the queue always comes to rest.
TEST(ScenarioRun, QueuesThatTakeFromEachOtherComeToRest) {
  const std::vector<std::string> queues{"default", "a", "b", "b/c"};
  int played = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    place::Lots lots(seed);
    std::string text =
        "queue a quota=4 weight=2\nqueue b quota=6 most=12\nqueue b/c quota=2 borrow=no\n"
        "user u1 most=8 weight=2\nnodes n count=3 gpus=4\nexclude u0 n-2\n";
    int jobs = 0;
    for (std::uint32_t time = 1; time < 60; ++time) {
      const std::uint32_t known = jobs == 0 ? 0 : lots.below(static_cast<std::uint32_t>(jobs));
      switch (jobs == 0 ? 5 : lots.below(8)) {
        case 0:
          if (time % 10 != 0) break;
          text += fmt::format("at {} priority j{} {}\n", time, known, lots.below(4));
          break;
        case 1:
          text += fmt::format("at {} cordon n-{}\n", time, lots.below(3));
          break;
        case 2:
          text += fmt::format("at {} uncordon n-{}\n", time, lots.below(3));
          break;
        default:
          text += fmt::format(
              "at {} submit j{} queue={} user=u{} gpus={} members={} priority={} lasts={} "
              "grace={} min-run={} retries=1 time-limit={}{}{}\n",
              time, jobs, queues[lots.below(4)], lots.below(3), lots.below(2) == 0 ? "0.5" : "1",
              1 + lots.below(2), lots.below(3), 1 + lots.below(30), lots.below(3) * lots.below(5),
              lots.below(2) * lots.below(9), 5 + lots.below(60),
              lots.below(3) == 0 ? " preemptible=no" : "",
              jobs != 0 && lots.below(5) == 0 ? fmt::format(" after=j{}:ended", known) : "");
          ++jobs;
      }
    }
    const std::string all = text + "at 60 uncordon n-0\nuncordon n-1\nuncordon n-2\n";
    // A job may have ended before its priority is changed; that is the text's fault.
    const auto scenario = parse_scenario(all, "test.scenario");
    ASSERT_TRUE(scenario.has_value()) << scenario.error().message;
    const auto report = run_scenario(*scenario);
    if (!report) {
      EXPECT_NE(report.error().message.find("has ended already"), std::string::npos)
          << seed << " " << report.error().message;
      continue;
    }
    ++played;
    for (const ScenarioJobOutcome& job : report->jobs) {
      EXPECT_TRUE(is_finished(job.state)) << seed << " " << job.name;
    }
  }
  EXPECT_GT(played, 10);
}

TEST(ScenarioRun, StoppedJobsHaveTheirGrace) {
  const ScenarioReport report =
      run("node a gpus=1\nsubmit low gpus=1 grace=10 lasts=100\nat 5 submit high gpus=1 priority=1 "
          "lasts=5\nexpect low stopping\nexpect high waits \"1 job makes way\"\nat 15 expect high "
          "preempts low\nexpect low waits\nat 20 expect low started 20\nexpect low starts 2\n");
  EXPECT_EQ(report.failed(), 0U);
  EXPECT_EQ(report.end, 120);
}

TEST(ScenarioRun, RefusesAScenarioWithoutEnd) {
  std::string text = "node a gpus=1\n";
  for (int i = 0; i < 12; ++i) text += fmt::format("submit j{} gpus=1 lasts=3660d\n", i);
  EXPECT_EQ(refused(text),
            "test.scenario:13: it goes on for more than 100 years; let jobs last less");
}

TEST(ScenarioReport, TableAndJson) {
  const ScenarioReport report = run(
      "policy bestfit\nnode a gpus=1\nsubmit j gpus=1 lasts=5\nexpect j waits\nexpect j runs\n");
  EXPECT_EQ(to_table(report),
            "test.scenario, policy bestfit\n"
            "\n"
            "TIME  JOB  EVENT      DETAIL\n"
            "0     j    submitted  1 GPU\n"
            "0     j    starts     on a gpu 0\n"
            "5     j    ends\n"
            "\n"
            "JOB  STATE      SUBMITTED  STARTED  ENDED  STARTS\n"
            "j    succeeded  0          0        5      1\n"
            "\n"
            "100.0 % of the GPUs in use until 5\n"
            "test.scenario:4: expected j waits; j runs on a gpu 0\n"
            "1 of 2 expectations not met\n");
  EXPECT_EQ(to_json(report),
            R"({"scenario":"test.scenario","policy":"bestfit","passed":false,"end_s":5,)"
            R"("gpu_use":1.000000,"timeline":[)"
            R"({"at_s":0,"job":"j","event":"submitted","detail":"1 GPU"},)"
            R"({"at_s":0,"job":"j","event":"starts","detail":"on a gpu 0"},)"
            R"({"at_s":5,"job":"j","event":"ends","detail":""}],)"
            R"("jobs":[{"name":"j","state":"succeeded","submitted_s":0,"started_s":0,"ended_s":5,)"
            R"("starts":1}],"expectations":[)"
            R"({"line":4,"text":"j waits","passed":false,"found":"j runs on a gpu 0"},)"
            R"({"line":5,"text":"j runs","passed":true,"found":""}]})"
            "\n");
}

}  // namespace
}  // namespace divvy::sim
