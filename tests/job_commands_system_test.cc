// The commands about jobs against the real daemon: submit, logs, exec, attach, cp, wait and their
// exit statuses, also while the daemon goes away and comes back.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "job_machine.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

class JobCommandsSystem : public JobMachine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
  }

  std::uint64_t submit_by_command(std::vector<std::string> words) {
    words.insert(words.begin(), {"submit", "-o", "name", "-q"});
    const Outcome submitted = divvy(words);
    EXPECT_EQ(submitted.status, 0) << submitted.err;
    return submitted.status == 0 ? std::stoull(submitted.out) : 0;
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder() / name) << text;
  }
};

// --- submit ---

TEST_F(JobCommandsSystem, SubmitWaitsAndHasTheStatusOfTheJob) {
  EXPECT_EQ(divvy({"submit", "--gpu", "0.3", "--wait", "--", "true"}).status, 0);
  EXPECT_EQ(divvy({"submit", "--gpu", "0.3", "--wait", "--", "sh", "-c", "exit 7"}).status, 7);
  EXPECT_EQ(divvy({"submit", "--gpu", "0.3", "--wait", "--", "sh", "-c", "kill -KILL $$"}).status,
            137);
  EXPECT_EQ(divvy({"submit", "--gpu", "0.3", "--wait", "--timeout", "1s", "--grace", "1s", "--",
                   "sleep", "1000"})
                .status,
            124);
  const Outcome followed =
      divvy({"submit", "--gpu", "0.3", "--follow", "--", "sh", "-c", "echo out; exit 2"});
  EXPECT_EQ(followed.status, 2) << followed.err;
  EXPECT_TRUE(has(followed.out, "out\n")) << followed.out;
}

TEST_F(JobCommandsSystem, AJobFindsProgramsWhereItsOwnerDoes) {
  fs::create_directories(folder() / "tools");
  write("tools/mytool", "#!/bin/sh\necho found it in $PATH\n");
  fs::permissions(folder() / "tools/mytool", fs::perms(0755));
  const std::string path = "PATH=" + (folder() / "tools").string() + ":/usr/bin:/bin";
  std::ranges::replace(environment_, std::string("PATH=/usr/bin:/bin"), path);
  const Outcome found = divvy({"submit", "--follow", "--gpu", "0.3", "--", "mytool"});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_TRUE(has(found.out, "found it in " + path.substr(5))) << found.out;
  // Unless the job names another one.
  const Outcome not_found =
      divvy({"submit", "--wait", "--gpu", "0.3", "-e", "PATH=/usr/bin:/bin", "--", "mytool"});
  EXPECT_EQ(not_found.status, 127) << not_found.err;
}

TEST_F(JobCommandsSystem, ADryRunChecksEverythingAndSubmitsNothing) {
  const Outcome fine = divvy({"submit", "--dry-run", "--gpu", "0.3", "--", "true"});
  EXPECT_EQ(fine.status, 0) << fine.err;
  const Outcome wrong = divvy({"submit", "--dry-run", "--queue", "nowhere", "--", "true"});
  EXPECT_EQ(wrong.status, 3) << wrong.err;
  EXPECT_TRUE(has(wrong.err, "queue: there is no queue nowhere")) << wrong.err;
  EXPECT_NE(divvy({"submit", "--dry-run", "--gpu", "64", "--", "true"}).status, 0) << "too large";
  EXPECT_TRUE(ask("GET", "/v1/jobs").body.at("items").as_array().empty());
}

TEST_F(JobCommandsSystem, AJobFileSaysEverythingAndOptionsGoBeforeIt) {
  write("job.yaml",
        "name: filed\n"
        "gpu: 0.3\n"
        "gpu_memory: 2GiB\n"
        "command: [sh, -c, \"echo $GREETING $DIVVY_JOB_NAME; pwd\"]\n"
        "environment: {GREETING: hello}\n"
        "working_directory: /usr\n");
  const std::string file = (folder() / "job.yaml").string();
  const Outcome filed = divvy({"submit", "-f", file, "--follow", "--name", "renamed"});
  EXPECT_EQ(filed.status, 0) << filed.err;
  EXPECT_TRUE(has(filed.out, "hello renamed\n/usr\n")) << filed.out;
  write("wrong.yaml", "gpu: 0.3\ncomand: [true]\n");
  const Outcome wrong = divvy({"submit", "-f", (folder() / "wrong.yaml").string()});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_TRUE(has(wrong.err, "wrong.yaml:2:1") && has(wrong.err, "command")) << wrong.err;
}

TEST_F(JobCommandsSystem, TheSameKeyTwiceIsOneJobAlsoOverARestart) {
  const std::vector<std::string> words = {"--gpu", "0.3", "--key", "tonight", "--", "true"};
  const auto first = submit_by_command(words);
  EXPECT_EQ(submit_by_command(words), first);
  stop_daemon(SIGKILL);
  start_daemon();
  EXPECT_EQ(submit_by_command(words), first);
}

// --- logs ---

TEST_F(JobCommandsSystem, LogsAreFollowedThroughARestartOfTheDaemonEachLineOnce) {
  const std::string base = folder().string();
  const auto gate = [&](const std::string& name) {
    return "while [ ! -e " + base + "/" + name + ".go ]; do sleep 0.05; done; ";
  };
  const auto id =
      submit({{"members", 2},
              {"gpu", 0.3},
              {"command",
               {"sh", "-c",
                "echo one; " + gate("two") + "echo two; " + gate("three") + "echo three >&2"}}});
  Program follower = start_divvy({"logs", "-f", std::to_string(id)}, "logs");
  const auto shows = [&](const std::string& line) {
    return eventually([&] {
      const std::string text = follower.printed();
      return has(text, "[0] " + line + "\n") && has(text, "[1] " + line + "\n");
    });
  };
  ASSERT_TRUE(shows("one")) << follower.printed() << follower.errors();
  stop_daemon(SIGKILL);
  open_gate("two");  // What it says while nobody listens is not lost.
  start_daemon();
  ASSERT_TRUE(shows("two")) << follower.printed() << follower.errors();
  stop_daemon(SIGTERM);
  start_daemon();
  open_gate("three");
  const Outcome outcome = follower.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(sorted_lines(outcome.out),
            (std::vector<std::string>{"[0] one", "[0] three", "[0] two", "[1] one", "[1] three",
                                      "[1] two"}));
  EXPECT_TRUE(becomes(id, "succeeded"));
}

TEST_F(JobCommandsSystem, LogsFollowAGangFromBeforeItStartedToItsLastAttempt) {
  const auto before = submit(gated("before", 2));
  ASSERT_TRUE(becomes(before, "running"));
  const std::string file = (folder() / "tries").string();
  // Member 1 fails the first time.
  const auto id = submit({{"members", 2},
                          {"gpu", 1},
                          {"grace", "5s"},
                          {"retry", {{"most", 1}, {"pause", "1s"}}},
                          {"command",
                           {"sh", "-c",
                            "echo attempt $DIVVY_ATTEMPT; [ $RANK = 1 ] || exit 0; "
                            "echo x >> " +
                                file + "; test $(wc -l < " + file + ") = 2"}}});
  Program follower = start_divvy({"logs", "-f", std::to_string(id)}, "logs");
  open_gate("before");
  ASSERT_TRUE(becomes(id, "succeeded"));
  const Outcome outcome = follower.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "[0] attempt 2\n")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "[1] attempt 2\n")) << outcome.out;
}

TEST_F(JobCommandsSystem, LogsShowTheLastLinesWithTheirTimesOrOneMember) {
  const auto id =
      submit({{"members", 2},
              {"gpu", 0.3},
              {"command", {"sh", "-c", "for i in 1 2 3; do echo line $i of $RANK; done"}}});
  ASSERT_TRUE(becomes(id, "succeeded"));
  const std::string name = std::to_string(id);
  EXPECT_EQ(divvy({"logs", name, "--rank", "1", "--tail", "1"}).out, "line 3 of 1\n");
  EXPECT_EQ(sorted_lines(divvy({"logs", name}).out).size(), 6U);
  const std::string timed = divvy({"logs", name, "--rank", "0", "--timestamps"}).out;
  const auto lines = sorted_lines(timed);
  ASSERT_EQ(lines.size(), 3U) << timed;
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.starts_with("20") && line[10] == 'T' && has(line, "Z line ")) << line;
  }
  EXPECT_EQ(divvy({"logs", name, "--since", "2h"}).out.size(), divvy({"logs", name}).out.size());
  EXPECT_EQ(divvy({"logs", "4711"}).status, 3);
  EXPECT_EQ(divvy({"logs", name, "--rank", "2"}).status, 3);
}

// --- exec, cp, wait ---

TEST_F(JobCommandsSystem, ExecRunsBesideTheJobAndHasItsOwnStatus) {
  const auto id = submit(waiting("host"));
  ASSERT_TRUE(becomes(id, "running"));
  const std::string name = std::to_string(id);
  const Outcome inside = divvy({"exec", name, "-e", "MORE=yes", "--cwd", "/usr", "--", "sh", "-c",
                                "echo $DIVVY_JOB_ID $MORE; pwd; echo no >&2; exit 5"});
  EXPECT_EQ(inside.status, 5) << inside.err;
  EXPECT_EQ(inside.out, name + " yes\n/usr\n");
  EXPECT_TRUE(has(inside.err, "no\n"));
  EXPECT_EQ(divvy({"exec", name, "--", "no-such-program"}).status, 127);
  const Outcome sees = divvy({"exec", name, "--", GPULOAD_PROGRAM, "info"});
  ASSERT_EQ(sees.status, 0) << sees.err;
  EXPECT_EQ(json::parse(sees.out).at("devices").to_number<int>(), 1) << "the slice of the job";
  // By name, and after the daemon was killed.
  stop_daemon(SIGKILL);
  start_daemon();
  EXPECT_EQ(divvy({"exec", "host", "--", "true"}).status, 0);
}

TEST_F(JobCommandsSystem, AttachTypesToTheJobShowsItsAnswerAndHasItsStatus) {
  const Outcome submitted = divvy({"submit", "--quiet", "-o", "name", "--gpu", "0.3", "--stdin",
                                   "--", "sh", "-c", "read a; read b; echo got $a $b; exit 4"});
  ASSERT_EQ(submitted.status, 0) << submitted.err;
  const std::uint64_t id = 1;
  ASSERT_TRUE(becomes(id, "running"));
  stop_daemon(SIGKILL);
  start_daemon();
  const Outcome attached =
      start({"/bin/sh", "-c", "printf 'one\\ntwo\\n' | " DIVVY_PROGRAM " attach 1"}, "attach")
          .finish();
  EXPECT_EQ(attached.status, 4) << attached.err;
  EXPECT_EQ(attached.out, "got one two\n");
  ASSERT_TRUE(becomes(id, "failed"));
  EXPECT_EQ(divvy({"attach", "1"}).status, 3) << "nothing of it runs";
}

TEST_F(JobCommandsSystem, CpGoesIntoTheJobAndOutOfIt) {
  const auto id = submit(waiting("host"));
  ASSERT_TRUE(becomes(id, "running"));
  const std::string name = std::to_string(id);
  fs::create_directories(folder() / "inside");
  write("letter", "dear job\n");
  const Outcome into =
      divvy({"cp", (folder() / "letter").string(), name + ":" + (folder() / "inside").string()});
  EXPECT_EQ(into.status, 0) << into.err;
  EXPECT_EQ(read_file("inside/letter"), "dear job\n");
  const Outcome out =
      divvy({"cp", name + ":" + (folder() / "inside").string(), (folder() / "outside").string()});
  EXPECT_EQ(out.status, 0) << out.err;
  EXPECT_EQ(read_file("outside/letter"), "dear job\n");
  EXPECT_NE(divvy({"cp", name + ":/no/such/file", folder().string()}).status, 0);
  const Outcome nowhere = divvy({"cp", (folder() / "letter").string(), name + ":/no/such/folder"});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_TRUE(has(nowhere.err, "/no/such/folder has to be a folder that is there")) << nowhere.err;
}

TEST_F(JobCommandsSystem, WaitHasAStatusForEveryEnd) {
  const auto good = submit(gated("good"));
  const auto bad = submit(gated("bad", 0.3, 3));
  const std::string good_name = std::to_string(good);
  const std::string bad_name = std::to_string(bad);
  EXPECT_EQ(divvy({"wait", good_name, "--for", "running"}).status, 0);
  EXPECT_EQ(divvy({"wait", good_name, "--timeout", "1s"}).status, 124);
  Program hopes = start_divvy({"wait", bad_name, "--for", "succeeded"}, "wait");
  open_gate("good");
  open_gate("bad");
  EXPECT_EQ(divvy({"wait", good_name, bad_name, "--for", "ended"}).status, 0);
  EXPECT_EQ(hopes.finish().status, 1);
  EXPECT_EQ(divvy({"wait", good_name, "--for", "succeeded"}).status, 0);
  EXPECT_EQ(divvy({"wait", "4711"}).status, 3);
}

TEST_F(JobCommandsSystem, WhoWaitsWaitsThroughARestartOfTheDaemon) {
  Program waits = start_divvy(
      {"submit", "--gpu", "0.3", "--wait", "--", "sh", "-c",
       "while [ ! -e " + (folder() / "go").string() + " ]; do sleep 0.05; done; exit 6"},
      "waits");
  ASSERT_TRUE(eventually([&] { return has(waits.printed(), "job 1"); }));
  stop_daemon(SIGKILL);
  std::ofstream(folder() / "go") << "now\n";
  start_daemon();
  EXPECT_EQ(waits.finish().status, 6);
}

// --- list, describe, delete, prune ---

TEST_F(JobCommandsSystem, ListsFilterAndPrunedJobsAreGoneWithTheirOutput) {
  const auto done = submit({{"name", "done"}, {"command", {"echo", "hello"}}});
  const auto stays = submit(waiting("stays"));
  ASSERT_TRUE(becomes(done, "succeeded"));
  ASSERT_TRUE(becomes(stays, "running"));
  EXPECT_EQ(divvy({"list", "-o", "name"}).out, std::to_string(stays) + "\n");
  EXPECT_EQ(divvy({"list", "--all", "--state", "succeeded", "-o", "name"}).out,
            std::to_string(done) + "\n");
  EXPECT_TRUE(has(divvy({"list", "-o", "csv", "--all"}).out, "done"));
  EXPECT_TRUE(has(divvy({"describe", "done"}).out, "echo"));
  EXPECT_TRUE(has(divvy({"top", "-o", "json"}).out, "\"tenants\""));
  const fs::path members = folder() / "run/state/members";
  const std::string output = "job-" + std::to_string(done) + ".1.0";
  EXPECT_TRUE(fs::exists(members / output));
  const Outcome ended = divvy({"delete", std::to_string(done)});
  EXPECT_EQ(ended.status, 1);
  EXPECT_TRUE(has(ended.err, "has ended already: succeeded")) << ended.err;
  EXPECT_EQ(divvy({"prune", "--older-than", "0s"}).status, 0);
  EXPECT_FALSE(fs::exists(members / output));
  EXPECT_EQ(divvy({"get", "done"}).status, 3);
  EXPECT_EQ(divvy({"delete", "stays"}).status, 0);
  EXPECT_TRUE(becomes(stays, "cancelled"));
}

}  // namespace
}  // namespace divvy::testing
