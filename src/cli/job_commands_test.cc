// The commands about jobs against a daemon that answers canned documents: what they ask, print and
// return.
#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "net/server_sent_events.h"

namespace divvy::cli {
namespace {

bool contains(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

constexpr const char* kQueued = R"({"id":17,"name":"train","owner":"ada","queue":"research",
  "state":"queued","stopping":null,"class":"batch","priority":0,"members":1,
  "shareThousandths":300,"array":null,"arrayIndex":null,
  "submittedUnixMilliseconds":1794743700000,"startedUnixMilliseconds":null,
  "endedUnixMilliseconds":null,"notBeforeUnixMilliseconds":null,"attempt":0,"failures":0,
  "running":[],"history":[{"unixMilliseconds":1794743700000,"state":"queued","reason":"submitted"}],
  "spec":{"command":["python","train.py"],"environment":{"SECRET":"x"},"gpu":"0.3"},
  "waits":{"kind":"full","text":"0.3 of a GPU is free nowhere","place":3,"inLine":12,
           "startsUnixMilliseconds":1794744300000},"idleLeftSeconds":null})";

std::string job_in(const std::string& state, int exit_code = 0, int signal = 0) {
  return fmt::format(
      R"({{"id":17,"name":"train","owner":"ada","queue":"research","state":"{}","stopping":null,
      "class":"batch","priority":0,"members":4,"shareThousandths":1000,
      "submittedUnixMilliseconds":1794743700000,"startedUnixMilliseconds":1794743800000,
      "endedUnixMilliseconds":1794743900000,"attempt":1,"failures":0,
      "running":[{{"rank":0,"node":"box","slices":[{{"gpu":"GPU-00000000-0000","shareThousandths":1000}}],
      "end":{{"unixMilliseconds":1794743900000,"exitCode":{},"signal":{},"reason":""}}}}],
      "history":[{{"unixMilliseconds":1794743900000,"state":"{}","reason":"ended with exit code {}"}}]}})",
      state, exit_code, signal, state, exit_code);
}

class JobCommands : public testing::Test {
 protected:
  CliOutcome divvy(std::vector<std::string> arguments) {
    return run_divvy(arguments, daemon_.socket());
  }
  std::string file(const std::string& name, const std::string& text) {
    const auto path = daemon_.folder() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  FakeDaemon daemon_;
};

TEST_F(JobCommands, ListShowsATable) {
  daemon_.on("GET /v1/jobs",
             fmt::format(R"({{"items":[{},{}],"next":null}})", kQueued, job_in("failed", 3)));
  const CliOutcome outcome = divvy({"list"});
  EXPECT_EQ(outcome.status, kExitOk);
  EXPECT_EQ(outcome.out,
            "ID  NAME   USER  QUEUE     STATE     GPU    AGE   TIME\n"
            "17  train  ada   research  queued    0.3  5m00s      -\n"
            "17  train  ada   research  failed  4 x 1  5m00s  1m40s\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(contains(daemon_.last_asked(), "state=queued%2Cstarting")) << daemon_.last_asked();
}

TEST_F(JobCommands, ListReadsEveryPage) {
  daemon_.on("GET /v1/jobs", [&](const net::HttpRequest& request) {
    const bool first = request.query.find("after=") == std::string::npos;
    return net::HttpResponse{.body = first ? R"({"items":[{"id":2}],"next":2})"
                                           : R"({"items":[{"id":1}],"next":null})"};
  });
  EXPECT_EQ(divvy({"list", "-o", "name"}).out, "2\n1\n");
  EXPECT_EQ(divvy({"list", "-o", "name", "--sort-by", "id"}).out, "1\n2\n");
  EXPECT_EQ(divvy({"list", "-o", "name", "--limit", "1"}).out, "2\n");
}

TEST_F(JobCommands, ListHasDocumentsAndCsv) {
  daemon_.on("GET /v1/jobs", fmt::format(R"({{"items":[{}]}})", kQueued));
  EXPECT_TRUE(contains(divvy({"list", "-o", "json"}).out, "\"kind\": \"JobList\""));
  EXPECT_TRUE(contains(divvy({"list", "-o", "yaml"}).out, "kind: JobList\n"));
  const CliOutcome csv = divvy({"list", "-o", "csv"});
  EXPECT_TRUE(csv.out.starts_with("id,name,user,queue,state,gpu,age,time,class,")) << csv.out;
  EXPECT_TRUE(contains(csv.out, "\n17,train,ada,research,queued,0.3,5m00s,,batch,")) << csv.out;
}

TEST_F(JobCommands, ListRefusesWrongWords) {
  EXPECT_EQ(divvy({"list", "-o", "xml"}).status, kExitUsage);
  const CliOutcome outcome = divvy({"list", "--sort-by", "nam"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_TRUE(contains(outcome.err, "did you mean name?")) << outcome.err;
  EXPECT_EQ(divvy({"list", "--since", "soon"}).status, kExitUsage);
}

TEST_F(JobCommands, ListWatchShowsChangesAsTheyCome) {
  daemon_.on("GET /v1/jobs", fmt::format(R"({{"items":[{}]}})", kQueued));
  daemon_.on("GET /v1/jobs/17", job_in("running"));
  int connections = 0;
  daemon_.on("GET /v1/watch", [&](const net::HttpRequest& request) {
    if (++connections > 1) {  // After a break: behind the last event
      EXPECT_EQ(request.header("last-event-id"), "5");
      return net::HttpResponse{.status = 403, .body = R"({"detail":"that is enough"})"};
    }
    EXPECT_EQ(request.query, "from=now");
    net::HttpResponse response;
    response.content_type = std::string(net::kEventStream);
    response.stream = [](net::HttpStream& stream) {
      (void)stream.send(net::write_heartbeat());
      (void)stream.send(net::write_event({"5", "job", R"({"job":17,"state":"running"})"}));
    };
    return response;
  });
  const CliOutcome outcome = divvy({"list", "--watch"});
  EXPECT_EQ(outcome.status, kExitDenied);
  EXPECT_TRUE(contains(outcome.out, "queued")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "\n17  train  ada   research  running")) << outcome.out;
}

TEST_F(JobCommands, GetOfAWaitingJobTellsPlaceReasonAndTime) {
  daemon_.on("GET /v1/jobs/17", kQueued);
  EXPECT_EQ(divvy({"get", "17"}).out,
            "Job 17 train: queued\n"
            "  user       ada\n"
            "  queue      research\n"
            "  GPU        0.3\n"
            "  submitted  2026-11-15T11:55:00Z\n"
            "  place      3 of 12 in line\n"
            "  waits for  0.3 of a GPU is free nowhere\n"
            "  starts     in about 5m00s (at 2026-11-15T12:05:00Z)\n");
}

TEST_F(JobCommands, GetTellsWhatAJobUsed) {
  daemon_.on("GET /v1/jobs/17", R"({"id":17,"name":"train","state":"succeeded","owner":"ada",
      "queue":"research","shareThousandths":300,"members":1,"class":"batch","running":[],
      "accounting":{"waitedMilliseconds":1500,"ranMilliseconds":90000,"gpuHeldMilliseconds":27000,
      "gpuUsedMilliseconds":9000,"gpuMemoryPeakBytes":3221225472,"cpuMilliseconds":61000,
      "ramPeakBytes":67108864}})");
  EXPECT_EQ(divvy({"get", "17"}).out,
            "Job 17 train: succeeded\n"
            "  user       ada\n"
            "  queue      research\n"
            "  GPU        0.3\n"
            "  waited     1.5s\n"
            "  ran        1m30s\n"
            "  GPU time   27s held, 9.0s used\n"
            "  GPU memory 3.0 GiB at most\n"
            "  CPU time   1m01s\n"
            "  RAM        64.0 MiB at most\n");
}

TEST_F(JobCommands, GetOfAJobThatDidNotSucceedTellsWhy) {
  daemon_.on("GET /v1/jobs/17", R"({"id":17,"name":"train","state":"failed","owner":"ada",
      "queue":"research","shareThousandths":300,"members":1,"class":"batch",
      "running":[{"rank":0,"end":{"exitCode":0,"signal":15,"reason":""}}],
      "history":[{"state":"stopping","reason":"it ran for the 1 s that it may"},
                 {"state":"failed","reason":"its time was up"}]})");
  EXPECT_TRUE(contains(divvy({"get", "17"}).out,
                       "  rank 0     killed by signal 15\n"
                       "  reason     its time was up\n"));
}

TEST_F(JobCommands, GetShowsTheMemoryOfAPartThatWasAskedForByMemoryAlone) {
  daemon_.on("GET /v1/jobs/17", R"({"id":17,"name":"train","state":"queued","owner":"ada",
      "queue":"research","shareThousandths":0,"gpuMemoryBytes":37580963840,"members":2,
      "class":"batch","running":[]})");
  EXPECT_TRUE(contains(divvy({"get", "17"}).out, "  GPU        2 x 35.0 GiB\n"));
}

TEST_F(JobCommands, GetNamesTheGpusOfAJobByTheirIndex) {
  daemon_.on("GET /v1/jobs/17", job_in("running"));
  EXPECT_TRUE(contains(divvy({"get", "17"}).out, "  where      GPU-00000000 on box\n"));
  daemon_.on("GET /v1/gpus", R"({"items":[{"index":3,"uuid":"GPU-00000000-0000"}]})");
  EXPECT_TRUE(contains(divvy({"get", "17"}).out, "  where      GPU 3 on box\n"));
  EXPECT_TRUE(contains(divvy({"get", "17", "-o", "wide"}).out, "GPU 3 on box"));
}

TEST_F(JobCommands, AJobIsFoundByItsName) {
  daemon_.on("GET /v1/jobs", R"({"items":[{"id":17}]})");
  daemon_.on("GET /v1/jobs/17", kQueued);
  EXPECT_EQ(divvy({"get", "train", "-o", "name"}).out, "17\n");
  EXPECT_TRUE(contains(daemon_.asked().front(), "name=train"));
}

TEST_F(JobCommands, AJobMayHaveTheNameOfACommand) {
  daemon_.on("GET /v1/jobs", R"({"items":[{"id":17}]})");
  daemon_.on("GET /v1/jobs/17", kQueued);
  EXPECT_EQ(divvy({"get", "list", "-o", "name"}).out, "17\n");
}

TEST_F(JobCommands, ANameOfSeveralJobsIsNotDeleted) {
  daemon_.on("GET /v1/jobs", R"({"items":[{"id":17},{"id":18}]})");
  const CliOutcome outcome = divvy({"delete", "train"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_TRUE(contains(outcome.err, "17, 18")) << outcome.err;
  EXPECT_FALSE(contains(daemon_.last_asked(), "DELETE")) << daemon_.last_asked();
}

TEST_F(JobCommands, MissingAndForeignJobsHaveTheirExitStatus) {
  EXPECT_EQ(divvy({"get", "99"}).status, kExitNotFound);
  daemon_.on("GET /v1/jobs/17/logs", R"({"detail":"job 17 is ada's"})", 403);
  EXPECT_EQ(divvy({"logs", "17"}).status, kExitDenied);
  daemon_.on("GET /v1/jobs/18", R"({"detail":"who are you?"})", 401);
  const CliOutcome outcome = divvy({"get", "18"});
  EXPECT_EQ(outcome.status, kExitDenied);
  EXPECT_EQ(outcome.err, "divvy: who are you?\n");
  EXPECT_EQ(outcome.out, "");
}

TEST_F(JobCommands, DescribeShowsHistoryAndAttemptsAndNoValues) {
  daemon_.on("GET /v1/jobs/17", kQueued);
  daemon_.on("GET /v1/jobs/17/attempts",
             R"({"items":[{"attempt":1,"members":[{"rank":0,"slices":[{"gpu":"GPU-1",
             "shareThousandths":300}],"end":{"exitCode":1,"signal":0,"reason":"out of memory"}}]}]})");
  const CliOutcome outcome = divvy({"describe", "17"});
  EXPECT_TRUE(contains(outcome.out, "  command    python train.py\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "  variable   SECRET\n"));
  EXPECT_TRUE(contains(outcome.out, "History:\n  2026-11-15T11:55:00Z  queued     submitted\n"));
  EXPECT_TRUE(contains(outcome.out,
                       "Attempts:\n  1, rank 0: 0.3 of GPU-1; exit status 1 (out of memory)\n"));
}

TEST_F(JobCommands, ExplainShowsDetailsSafely) {
  daemon_.on("GET /v1/jobs/17/explain",
             R"({"job":17,"state":"queued","waits":{"kind":"full","text":"no room"},
             "details":"GPU 0: full\nGPU 1: \u001b[2J"})");
  const CliOutcome outcome = divvy({"explain", "17"});
  EXPECT_TRUE(contains(outcome.out, "\nGPU 0: full\n")) << outcome.out;
  EXPECT_FALSE(contains(outcome.out, "\x1b"));
}

TEST_F(JobCommands, DeleteSuspendAndResumeGoOnAfterOneThatFails) {
  daemon_.on("DELETE /v1/jobs/18", R"({"id":18,"state":"cancelled"})");
  const CliOutcome outcome = divvy({"delete", "17", "18"});
  EXPECT_EQ(outcome.status, kExitNotFound);
  EXPECT_EQ(outcome.out, "job 18 is cancelled\n");
  daemon_.on("POST /v1/jobs/18/suspend", R"({"id":18,"state":"stopping"})");
  EXPECT_EQ(divvy({"suspend", "18"}).out, "job 18 is stopping\n");
  daemon_.on("POST /v1/jobs/prune", R"({"jobs":[1,2]})");
  EXPECT_EQ(divvy({"prune", "--older-than", "1d"}).out, "forgot 2 jobs with their output\n");
  EXPECT_EQ(daemon_.last_asked(), R"(POST /v1/jobs/prune {"older_than":"1d"})");
}

TEST_F(JobCommands, UpdateSendsWhatChangesAndSaysWhatDid) {
  daemon_.on("PATCH /v1/jobs/17", R"({"id":17,"state":"queued","history":[
      {"state":"queued","reason":"priority 7 instead of 0, by ada"}]})");
  const CliOutcome outcome = divvy({"update", "17", "--priority", "7", "--time-limit", "none"});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out, "job 17 is queued: priority 7 instead of 0, by ada\n");
  EXPECT_EQ(daemon_.last_asked(), R"(PATCH /v1/jobs/17 {"priority":7,"time_limit":null})");
  EXPECT_EQ(divvy({"update", "17"}).status, kExitUsage);
  EXPECT_EQ(divvy({"update", "--priority", "7"}).status, kExitUsage);
  daemon_.on("POST /v1/jobs/17/requeue", R"({"id":17,"state":"stopping"})");
  EXPECT_EQ(divvy({"requeue", "17"}).out, "job 17 is stopping\n");
}

TEST_F(JobCommands, ASweepWithAKeyIsTheSameWhenItIsSubmittedAgain) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"a","state":"queued"}]})", 201);
  const auto submitted = [&](const std::string& key) {
    EXPECT_EQ(divvy({"submit", "--sweep", "seed=1", "--key", key, "--", "a", "{seed}"}).status,
              kExitOk);
    return daemon_.last_asked();
  };
  const std::string first = submitted("x");
  EXPECT_EQ(submitted("x"), first);
  EXPECT_NE(submitted("y"), first);
}

TEST_F(JobCommands, SweepsAndSchedulesAreShownInTheFormatThatWasAskedFor) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"a","state":"queued"}]})", 201);
  const auto submitted = [&](const std::string& how, const std::string& what,
                             const std::string& format) {
    return divvy({"submit", how, what, "--name", "n", "-o", format, "--", "a", "{seed}"}).out;
  };
  EXPECT_EQ(submitted("--sweep", "seed=1,2", "name"), "17\n17\n");
  EXPECT_TRUE(contains(submitted("--sweep", "seed=1,2", "json"), R"("kind": "JobList")"));
  daemon_.on("POST /v1/schedules", R"({"name":"n","nextUnixMilliseconds":1})", 201);
  EXPECT_EQ(submitted("--every", "@daily", "name"), "n\n");
  EXPECT_TRUE(contains(submitted("--every", "@daily", "json"), "nextUnixMilliseconds"));
  EXPECT_EQ(divvy({"submit", "--every", "@daily", "--name", "n", "--key", "x", "--", "a"}).status,
            kExitUsage)
      << "it would do nothing";
}

TEST_F(JobCommands, WhoComesWhenThereIsNoPlaceLeftIsToldWhatToDo) {
  daemon_.on("GET /v1/jobs", "", 429);
  const CliOutcome refused = divvy({"list"});
  EXPECT_EQ(refused.status, kExitError);
  EXPECT_EQ(refused.err,
            "divvy: divvyd has as many connections of yours as it takes; try again when some have "
            "ended\n");
}

TEST_F(JobCommands, SubmitPassesVariablesByName) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[],"dry_run":true})");
  const std::map<std::string, std::string> mine{{"DATA", "/data"}, {"SEED", "1"}};
  EXPECT_EQ(run_divvy({"submit", "--dry-run", "--export", "DATA", "--export", "SEED", "-e",
                       "SEED=2", "--", "a"},
                      daemon_.socket(), mine)
                .status,
            kExitOk);
  EXPECT_TRUE(contains(daemon_.last_asked(), R"("environment":{"DATA":"/data","SEED":"2"})"))
      << daemon_.last_asked();
  const CliOutcome outcome = divvy({"submit", "--export", "NOSUCH", "--", "a"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_TRUE(contains(outcome.err, "no variable NOSUCH")) << outcome.err;
}

TEST_F(JobCommands, SubmitWritesTheOutputIntoAFile) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"train","state":"queued"}]})", 201);
  daemon_.on("GET /v1/jobs/17/logs", "2026-11-15T12:00:00.000000001Z hello\n");
  daemon_.on("GET /v1/jobs/17", job_in("succeeded"));
  const std::string log = file("out.txt", "before\n");
  const CliOutcome outcome = divvy({"submit", "--log", log, "--", "a"});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out, "job 17 (train) is queued\n");
  std::ifstream stream(log);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(text, "before\nhello\n");
  const std::size_t asked = daemon_.asked().size();
  EXPECT_EQ(divvy({"submit", "--log", "/nowhere/out.txt", "--", "a"}).status, kExitUsage);
  EXPECT_EQ(daemon_.asked().size(), asked);
}

TEST_F(JobCommands, SubmitSendsTheJobAndNamesTheNextCommand) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"train","state":"queued"}]})", 201);
  const CliOutcome outcome = divvy({"submit", "--gpu", "0.3", "--cwd", "/tmp", "-e", "A=b=c",
                                    "--array", "0-9:3%2", "--after", "3:ended", "--mount",
                                    "/data:/data:ro", "--image", "img", "--", "python", "--help"});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out, "job 17 (train) is queued\n");
  EXPECT_EQ(outcome.err, "divvy: next: divvy logs 17 -f, divvy get 17\n");
  EXPECT_EQ(
      daemon_.last_asked(),
      R"(POST /v1/jobs {"gpu":"0.3","working_directory":"/tmp","command":["python","--help"],)"
      R"("array":{"first":0,"last":9,"step":3,"at_once":2},"after":[{"job":3,"kind":"ended"}],)"
      R"("environment":{"A":"b=c"},"container":{"image":"img","mounts":[{"source":"/data",)"
      R"("target":"/data","read_only":true}]}})");
}

TEST_F(JobCommands, SubmitTakesThePathAlongUnlessAnotherIsNamed) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[],"dry_run":true})");
  const auto sent = [this](const std::vector<std::string>& options) {
    std::vector<std::string> words{"submit", "--dry-run"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "train"});
    EXPECT_EQ(run_divvy(words, daemon_.socket(), {{"PATH", "/venv/bin:/bin"}}).status, kExitOk);
    return daemon_.last_asked();
  };
  EXPECT_TRUE(contains(sent({}), R"("environment":{"PATH":"/venv/bin:/bin"})"));
  EXPECT_TRUE(contains(sent({"-e", "PATH=/bin"}), R"("environment":{"PATH":"/bin"})"));
  EXPECT_FALSE(contains(sent({"--image", "img"}), "PATH"));
}

TEST_F(JobCommands, ExplainOfWhatDoesNotWaitSaysSo) {
  daemon_.on("GET /v1/jobs/17/explain",
             R"({"job":17,"state":"running","waits":{"kind":"nothing","text":"x"}})");
  EXPECT_EQ(divvy({"explain", "17"}).out,
            "Job 17: running\n  It does not wait; `divvy get 17` tells where it is.\n");
}

TEST_F(JobCommands, AStateThatThereIsNotIsRefusedWithTheOneThatWasMeant) {
  const CliOutcome outcome = divvy({"list", "--state", "runing"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_TRUE(contains(outcome.err, "did you mean running?")) << outcome.err;
}

TEST_F(JobCommands, SubmitTakesAFileAndOptionsGoBeforeIt) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[],"dry_run":true})");
  const std::string job =
      file("job.yaml", "name: train\ngpu: 0.3\nworking_directory: /\ncommand: [sleep, 60]\n");
  const CliOutcome outcome = divvy({"submit", "-f", job, "--name", "again", "--dry-run"});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_EQ(daemon_.last_asked(),
            R"(POST /v1/jobs?dry_run=true {"name":"again","gpu":"0.3","working_directory":"/",)"
            R"("command":["sleep","60"]})");
}

TEST_F(JobCommands, SubmitTellsWhereAFileIsWrong) {
  const std::string job = file("job.yaml", "gpu: 0.3\ncommand: [a]\nlimits:\n  rma: 4GiB\n");
  const CliOutcome outcome = divvy({"submit", "-f", job});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_TRUE(contains(outcome.err, job + ":4:3: limits.rma: there is no such field; did you mean "
                                          "limits.ram?"))
      << outcome.err;
  EXPECT_TRUE(daemon_.asked().empty());
}

TEST_F(JobCommands, SubmitRefusesWrongOptions) {
  const std::vector<std::string> wrong[] = {{"submit"},
                                            {"submit", "--gpu", "lots", "--", "a"},
                                            {"submit", "--array", "x", "--", "a"},
                                            {"submit", "--env", "novalue", "--", "a"},
                                            {"submit", "--mount", "a", "--image", "i", "--", "a"},
                                            {"submit", "--mount", "/a:/b", "--", "a"},
                                            {"submit", "--publish", "80:x:8080", "--image", "i"},
                                            {"submit", "--ulimit", "nofile=1:2:3", "--", "a"},
                                            {"submit", "--timeout", "5s", "--", "a"},
                                            {"submit", "-f", "/nowhere.yaml"}};
  for (const auto& arguments : wrong) {
    const CliOutcome outcome = divvy(arguments);
    EXPECT_EQ(outcome.status, kExitUsage) << testing::PrintToString(arguments) << outcome.err;
  }
  EXPECT_TRUE(daemon_.asked().empty());
}

TEST_F(JobCommands, SubmitAfterANameSaysThatItTakesANumber) {
  const CliOutcome outcome = divvy({"submit", "--after", "train:failed", "--", "a"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_TRUE(contains(outcome.err, "\"train\" is no number of a job; write 17")) << outcome.err;
}

TEST_F(JobCommands, SubmitWithFollowShowsTheOutputAndHasTheExitStatusOfTheJob) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"train","state":"queued"}]})", 201);
  daemon_.on("GET /v1/jobs/17/logs", "2026-11-15T12:00:00.000000001Z hello\n");
  daemon_.on("GET /v1/jobs/17", job_in("failed", 3));
  const CliOutcome outcome = divvy({"submit", "--follow", "--", "a"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "job 17 (train) is queued\nhello\n");
  EXPECT_EQ(outcome.err, "divvy: job 17 has failed: ended with exit code 3\n");
  daemon_.on("GET /v1/jobs/17", job_in("failed", 0, 9));
  const CliOutcome waited = divvy({"submit", "--wait", "--", "a"});
  EXPECT_EQ(waited.status, 137);
  EXPECT_EQ(waited.err, "divvy: job 17 has failed: ended with exit code 0\n") << "as it is told";
}

TEST_F(JobCommands, SubmitWithAFileAsOutputNamesTheOptionThatIsMeant) {
  const CliOutcome outcome = divvy({"submit", "--output", "run.log", "--", "a"});
  EXPECT_EQ(outcome.status, kExitUsage);
  EXPECT_NE(outcome.err.find("--log FILE"), std::string::npos) << outcome.err;
}

TEST_F(JobCommands, ASweepOfOneJobSpeaksOfOneJob) {
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"a","state":"queued"}]})", 201);
  EXPECT_EQ(divvy({"submit", "--sweep", "seed=1", "--dry-run", "--", "a", "{seed}"}).err,
            "divvy: 1 job would be taken; nothing was submitted\n");
  EXPECT_EQ(divvy({"submit", "--sweep", "seed=1,2", "--dry-run", "--", "a", "{seed}"}).err,
            "divvy: 2 jobs would be taken; nothing was submitted\n");
}

TEST_F(JobCommands, LogsOfAJobThatWaitsSayThatItDoes) {
  daemon_.on("GET /v1/jobs/17/logs", "");
  daemon_.on("GET /v1/jobs/17", kQueued);
  const CliOutcome outcome = divvy({"logs", "17"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "divvy: job 17 waits and has written nothing yet: 0.3 of a GPU is free nowhere; "
            "`divvy explain 17` says more\n");
}

TEST_F(JobCommands, LogsThatAreFollowedSayAtOnceThatTheJobWaits) {
  bool asked_for_output = false;
  daemon_.on("GET /v1/jobs/17", [&](const net::HttpRequest&) {
    return net::HttpResponse{.body = asked_for_output ? job_in("succeeded") : kQueued};
  });
  daemon_.on("GET /v1/jobs/17/logs", [&](const net::HttpRequest&) {
    asked_for_output = true;
    return net::HttpResponse{.body = "2026-11-15T12:00:00.000000001Z hello\n"};
  });
  const CliOutcome outcome = divvy({"logs", "17", "-f"});
  EXPECT_EQ(outcome.out, "hello\n");
  EXPECT_TRUE(contains(outcome.err, "job 17 waits and has written nothing yet: 0.3"))
      << outcome.err;
}

TEST_F(JobCommands, DeleteOfAJobThatHasEndedSaysSo) {
  daemon_.on("DELETE /v1/jobs/17", job_in("succeeded", 0));
  EXPECT_EQ(divvy({"delete", "17"}).out, "job 17 has ended already: succeeded\n");
}

TEST_F(JobCommands, SubmitByMemoryAloneAsksForNoWholeGpu) {
  daemon_.on("GET /v1/node", "{}");
  daemon_.on("POST /v1/jobs", R"({"items":[{"id":17,"name":"a","state":"queued"}]})", 201);
  EXPECT_EQ(divvy({"submit", "--gpu-mem", "10GiB", "--", "a"}).status, 0);
  const std::string asked = daemon_.asked().back();
  EXPECT_EQ(asked.find("\"gpu\":"), std::string::npos) << asked;
  EXPECT_NE(asked.find("\"gpu_memory\":\"10GiB\""), std::string::npos) << asked;
}

TEST_F(JobCommands, LogsGoOnWhereTheyBrokeOff) {
  int connections = 0;
  daemon_.on("GET /v1/jobs/17/logs", [&](const net::HttpRequest& request) {
    const bool again = ++connections > 1;
    EXPECT_EQ(request.query.find("since=") != std::string::npos, again) << request.query;
    EXPECT_EQ(request.query.find("tail=") != std::string::npos, !again) << request.query;
    net::HttpResponse response;
    response.content_type = "text/plain";
    response.stream = [again](net::HttpStream& stream) {
      (void)stream.send("[0] 2026-11-15T12:00:00.000000001Z one\n");
      (void)stream.send(again ? "[1] 2026-11-15T12:00:00.000000002Z two\n"
                              : "[1] 2026-11-15T12:00:00.0000");
    };
    return response;
  });
  daemon_.on("GET /v1/jobs/17", [&](const net::HttpRequest&) {
    return net::HttpResponse{.body = job_in(connections > 1 ? "succeeded" : "running")};
  });
  const CliOutcome outcome = divvy({"logs", "17", "-f", "--tail", "5"});
  EXPECT_EQ(outcome.status, kExitOk) << outcome.err;
  EXPECT_EQ(outcome.out, "[0] one\n[1] two\n");
}

TEST_F(JobCommands, WaitEndsWithTheEventThatDecidesIt) {
  std::string state = "queued";
  daemon_.on("GET /v1/jobs/17",
             [&](const net::HttpRequest&) { return net::HttpResponse{.body = job_in(state)}; });
  daemon_.on("GET /v1/watch", [&](const net::HttpRequest& request) {
    EXPECT_EQ(request.query, "job=17");
    net::HttpResponse response;
    response.content_type = std::string(net::kEventStream);
    response.stream = [&](net::HttpStream& stream) {
      (void)stream.send(net::write_event({"1", "job", R"({"job":17,"state":"queued"})"}));
      state = "failed";
      (void)stream.send(net::write_event({"2", "job", R"({"job":17,"state":"failed"})"}));
    };
    return response;
  });
  EXPECT_EQ(divvy({"wait", "17"}).status, kExitOk);
  state = "queued";
  EXPECT_EQ(divvy({"wait", "17", "--for", "succeeded"}).status, kExitError);
  EXPECT_EQ(divvy({"wait", "17", "--for", "happiness"}).status, kExitUsage);
}

TEST_F(JobCommands, WaitHasATimeout) {
  daemon_.on("GET /v1/jobs/17", job_in("queued"));
  daemon_.on("GET /v1/watch", [](const net::HttpRequest&) {
    net::HttpResponse response;
    response.content_type = std::string(net::kEventStream);
    response.stream = [](net::HttpStream& stream) {
      (void)stream.caller().wait_for(-1, std::chrono::milliseconds(-1));  // Until they hang up
    };
    return response;
  });
  const CliOutcome outcome = divvy({"wait", "17", "--timeout", "0s"});
  EXPECT_EQ(outcome.status, kExitWaitedTooLong);
  EXPECT_EQ(outcome.err, "divvy: job 17 is still queued\n");
}

TEST_F(JobCommands, ExecAndCopySayWhenThereIsNothingToGoInto) {
  daemon_.on("GET /v1/jobs/17/members", R"({"items":[]})");
  EXPECT_EQ(divvy({"exec", "17", "--", "ls"}).status, kExitNotFound);
  EXPECT_EQ(divvy({"attach", "17"}).status, kExitNotFound);
  EXPECT_EQ(divvy({"cp", "17:/a", "."}).status, kExitNotFound);
  EXPECT_EQ(divvy({"cp", "a", "b"}).status, kExitUsage);
  EXPECT_EQ(divvy({"cp", "17:a", "."}).status, kExitUsage);
  EXPECT_EQ(divvy({"exec", "17"}).status, kExitUsage);
}

TEST_F(JobCommands, EventsOfAJobAreShown) {
  daemon_.on("GET /v1/watch", [](const net::HttpRequest& request) {
    EXPECT_EQ(request.query, "job=17");
    net::HttpResponse response;
    response.content_type = std::string(net::kEventStream);
    response.stream = [](net::HttpStream& stream) {
      (void)stream.send(net::write_event(
          {"1", "job",
           R"({"number":1,"unixMilliseconds":1794744000000,"kind":"job","job":17,"state":"queued",
           "reason":"submitted"})"}));
    };
    return response;
  });
  EXPECT_EQ(divvy({"events", "--job", "17"}).out,
            "2026-11-15T12:00:00Z  job 17     queued     submitted\n");
}

}  // namespace
}  // namespace divvy::cli
