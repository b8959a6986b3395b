#include "api/job_documents.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "model/testing.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using model::Job;
using model::JobId;
using model::JobState;

WallTime at_second(int second) { return WallTime(std::chrono::seconds(second)); }

std::string refusal(const auto& result) { return result ? "it was taken" : result.error().message; }

Job running_job() {
  auto spec = parse_job_request(
      R"({"name":"train","queue":"research","gpu":0.3,"command":["python","train.py"],
          "environment":{"SECRET":"swordfish"},"labels":{"team":"vision"}})");
  Job job(JobId(7), "ada", spec.value(), at_second(1));
  job.task = model::ArrayTask{.array = JobId(6), .index = 1};
  job.history.push_back({at_second(1), JobState::kQueued, "submitted"});
  EXPECT_TRUE(job.become(JobState::kStarting, at_second(2), "placed"));
  EXPECT_TRUE(job.become(JobState::kRunning, at_second(3), ""));
  job.attempt = 1;
  job.members.push_back(
      {.rank = 0,
       .node = "node-a",
       .slices = {model::Slice::create(model::test_uuid(1), gib(10), Share(300),
                                       model::ShareKind::kGuarantee)
                      .value()},
       .end = model::MemberEnd{
           .at = at_second(9), .exit_code = 1, .signal = 0, .reason = "out of \x1b memory"}});
  return job;
}

TEST(JobDocuments, AJobShowsEverythingToWhoMayLookInside) {
  const json::object document = job_document(running_job(), JobDetail::kInside);
  EXPECT_EQ(document.at("id"), 7);
  EXPECT_EQ(document.at("state"), "running");
  EXPECT_EQ(document.at("array"), 6);
  EXPECT_EQ(document.at("submittedUnixMilliseconds"), 1000);
  EXPECT_EQ(document.at("startedUnixMilliseconds"), 3000);
  EXPECT_TRUE(document.at("endedUnixMilliseconds").is_null());
  EXPECT_EQ(document.at("history").as_array().size(), 3U);
  EXPECT_EQ(document.at("spec").at("environment").at("SECRET"), "swordfish");
  const json::value& member = document.at("running").at(0);
  EXPECT_EQ(member.at("slices").at(0).at("shareThousandths"), 300);
  EXPECT_EQ(member.at("end").at("exitCode"), 1);
  EXPECT_EQ(json::serialize(document).find('\x1b'), std::string::npos);
}

TEST(JobDocuments, OthersSeeThatItIsThereAndNotWhatIsInIt) {
  const std::string text = json::serialize(job_document(running_job(), JobDetail::kOutside));
  EXPECT_NE(text.find("\"owner\":\"ada\""), std::string::npos);
  for (const char* secret : {"swordfish", "train.py", "vision", "history", "spec"}) {
    EXPECT_EQ(text.find(secret), std::string::npos) << secret;
  }
}

TEST(JobDocuments, ASubmitIsCheckedAndTheFieldIsNamed) {
  EXPECT_TRUE(parse_job_request(R"({"gpu":1,"command":["x"]})").has_value());
  EXPECT_TRUE(refusal(parse_job_request(R"({"gpu":1})")).starts_with("command: "));
  EXPECT_TRUE(refusal(parse_job_request(R"({"gpu":1,"command":["x"],"array":{"step":0}})"))
                  .starts_with("array.step: "));
  EXPECT_EQ(refusal(parse_job_request(R"({"gpu":1,"command":["x"],"quue":"a"})")),
            "quue: there is no such field; did you mean queue?");
}

// `divvy delete 17` would not be the job that is called so.
TEST(JobDocuments, ANewJobIsNotCalledANumber) {
  const auto taken = [](const std::string& name) {
    return parse_new_job(R"({"gpu":1,"command":["a"],"name":")" + name + "\"}").has_value();
  };
  EXPECT_FALSE(taken("17"));
  EXPECT_FALSE(taken("007"));
  for (const char* name : {"run-17", "17a", "1.7"}) EXPECT_TRUE(taken(name)) << name;
}

TEST(JobDocuments, ReadsTheFilterOfAList) {
  const auto filter = parse_jobs_query(
      "state=queued,running,queued&owner=ada&queue=research/vision&name=train&array=3&since=1000&"
      "before=2000&order=oldest&after=7&limit=10");
  ASSERT_TRUE(filter.has_value()) << filter.error().message;
  EXPECT_EQ(filter->states, (std::vector{JobState::kQueued, JobState::kRunning}));
  EXPECT_EQ(filter->owner, "ada");
  EXPECT_EQ(filter->queue, "research/vision");
  EXPECT_EQ(filter->name, "train");
  EXPECT_EQ(filter->array, JobId(3));
  EXPECT_EQ(filter->submitted_since, at_second(1));
  EXPECT_EQ(filter->submitted_before, at_second(2));
  EXPECT_FALSE(filter->newest_first);
  EXPECT_EQ(filter->after, JobId(7));
  EXPECT_EQ(filter->limit, 10U);
  EXPECT_TRUE(parse_jobs_query("").has_value());
}

TEST(JobDocuments, RefusesFiltersThatMeanNothing) {
  EXPECT_TRUE(refusal(parse_jobs_query("state=sleeping")).starts_with("state: "));
  EXPECT_EQ(refusal(parse_jobs_query("order=random")), "\"order\" is newest or oldest");
  EXPECT_EQ(refusal(parse_jobs_query("limit=0")), "\"limit\" is a number from 1 to 1000");
  EXPECT_EQ(refusal(parse_jobs_query("limit=100000")), "\"limit\" is a number from 1 to 1000");
  EXPECT_NE(refusal(parse_jobs_query("sate=queued")).find("did you mean \"state\"?"),
            std::string::npos);
  EXPECT_FALSE(parse_watch_query("after=x").has_value());
  EXPECT_EQ(refusal(parse_watch_query("about=people")), "\"about\" is jobs, machines, all");
  EXPECT_EQ(refusal(parse_watch_query("from=then")), "\"from\" can only be now");
  EXPECT_EQ(refusal(parse_usage_query("by=colour")), "\"by\" is user, queue, job, hour");
}

TEST(JobDocuments, ReadsWhichEventsAndWhichUsage) {
  EXPECT_TRUE(parse_watch_query("from=now").value().from_now);
  EXPECT_EQ(parse_watch_query("").value().filter.about, store::EventFilter::About::kJobs);
  EXPECT_EQ(parse_watch_query("about=machines").value().filter.about,
            store::EventFilter::About::kMachines);
  EXPECT_EQ(parse_watch_query("about=all").value().filter.about, store::EventFilter::About::kAll);
  const store::EventFilter events =
      parse_watch_query("after=12&job=7&user=ada&limit=5").value().filter;
  EXPECT_EQ(events.after, 12U);
  EXPECT_EQ(events.job, JobId(7));
  EXPECT_EQ(events.user, "ada");
  EXPECT_EQ(events.limit, 5U);
  const auto usage = parse_usage_query("by=queue&since=1000&user=ada&queue=a&job=7").value();
  EXPECT_EQ(usage.by, store::UsageBy::kQueue);
  EXPECT_EQ(usage.filter.since, at_second(1));
  EXPECT_EQ(usage.filter.owner, "ada");
  EXPECT_EQ(usage.filter.job, JobId(7));
  EXPECT_FALSE(usage.csv);
  EXPECT_TRUE(parse_usage_query("format=csv")->csv);
  EXPECT_FALSE(parse_usage_query("format=xml").has_value());
}

TEST(JobDocuments, UsageIsATableInGpuHours) {
  EXPECT_EQ(usage_csv(store::UsageBy::kUser,
                      {{.name = "ada",
                        .held = 3'600'000,
                        .used = 1'800'000,
                        .memory = 3'686'400,
                        .jobs = 2,
                        .cpu = 7'200'000},
                       {.name = "=cmd()", .held = 1'800, .used = 0, .memory = 0, .jobs = 1}}),
            "user,jobs,gpu_hours_held,gpu_hours_used,memory_gib_hours,cpu_hours\n"
            "ada,2,1.000,0.500,1.000,2.000\n"
            "\"'=cmd()\",1,0.001,0.000,0.000,0.000\n");
}

TEST(JobDocuments, AccountsForAllAttemptsTogether) {
  model::Job job(JobId(7), "ada", parse_job_request(R"({"gpu":1,"command":["a"]})").value(),
                 at_second(10));
  const auto step = [&job](std::int64_t second, model::JobState state) {
    job.history.push_back({at_second(second), state, ""});
  };
  step(10, model::JobState::kQueued);
  step(14, model::JobState::kStarting);
  step(15, model::JobState::kRunning);
  step(18, model::JobState::kRunning);  // its priority was changed
  step(20, model::JobState::kStopping);
  step(21, model::JobState::kQueued);
  step(40, model::JobState::kRunning);
  const auto member = [](std::uint32_t rank, std::int64_t cpu_s, Bytes ram) {
    model::JobMember one;
    one.rank = rank;
    one.end = model::MemberEnd{
        at_second(50), 0, 0, "", {std::chrono::seconds(cpu_s), ram, gib(rank + 1)}};
    return one;
  };
  model::JobMember lives;
  const std::vector<store::JobAttempt> attempts{{1, {member(0, 3, gib(2)), member(1, 4, gib(1))}},
                                                {2, {lives}}};
  const store::UsageSum usage{"7", 5'000, 2'500, 0, 1};
  const json::object document = accounting_document(job, attempts, usage, at_second(43));
  EXPECT_EQ(document.at("waitedMilliseconds"), 5'000);
  EXPECT_EQ(document.at("ranMilliseconds"), 6'000 + 3'000);
  EXPECT_EQ(document.at("cpuMilliseconds"), 7'000);
  EXPECT_EQ(document.at("ramPeakBytes"), gib(2).count());
  EXPECT_EQ(document.at("gpuMemoryPeakBytes"), gib(2).count());
  EXPECT_EQ(document.at("gpuHeldMilliseconds"), 5'000);
  EXPECT_EQ(document.at("gpuUsedMilliseconds"), 2'500);
}

TEST(JobDocuments, WhatAMemberUsedIsForThoseWhoMayLookInside) {
  model::Job job(JobId(7), "ada", parse_job_request(R"({"gpu":1,"command":["a"]})").value(), {});
  model::JobMember member;
  member.end = model::MemberEnd{at_second(1), 0, 0, "", {std::chrono::seconds(2), {}, {}}};
  job.members = {member};
  const auto end = [&job](JobDetail detail) {
    return job_document(job, detail).at("running").at(0).at("end").as_object();
  };
  EXPECT_EQ(end(JobDetail::kInside).at("cpuMilliseconds"), 2'000);
  EXPECT_TRUE(end(JobDetail::kInside).at("ramPeakBytes").is_null());
  EXPECT_FALSE(end(JobDetail::kOutside).contains("cpuMilliseconds"));
}

TEST(JobDocuments, ATokenShowsNothingThatLetsAnybodyIn) {
  const store::TokenRecord token{.id = "0123456789abcdef",
                                 .user = "ada",
                                 .label = "laptop",
                                 .created = at_second(1),
                                 .expires = at_second(2),
                                 .last_used = {},
                                 .revoked = {}};
  const json::object document = token_document(token);
  EXPECT_EQ(document.at("expiresUnixMilliseconds"), 2000);
  EXPECT_FALSE(document.contains("hash"));
  EXPECT_FALSE(document.contains("secret"));
}

TEST(JobChange, PutsFieldsInTheirPlaceAndKeepsTheRest) {
  const auto before = parse_job_request(R"({"gpu":1,"command":["a"],"time_limit":"1h"})");
  ASSERT_TRUE(before);
  const auto after =
      parse_job_change(*before, R"({"gpu":"0.3","priority":7,"time_limit":null,"queue":"b"})");
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(to_string(after->request.share()), "0.3");
  EXPECT_EQ(after->priority, 7);
  EXPECT_EQ(after->time_limit, std::nullopt);
  EXPECT_EQ(after->queue, "b");
  EXPECT_EQ(after->command, before->command);
}

TEST(JobChange, NamesTheFieldThatIsWrong) {
  const auto before = parse_job_request(R"({"gpu":1,"command":["a"]})");
  ASSERT_TRUE(before);
  const auto refused = [&](const char* body) {
    const auto changed = parse_job_change(*before, body);
    return changed ? std::string() : changed.error().message;
  };
  EXPECT_EQ(refused(R"({"priorty":1})"), "priorty: there is no such field; did you mean priority?");
  EXPECT_TRUE(refused(R"({"command":["b"]})").starts_with("command: only these can be changed"));
  EXPECT_TRUE(refused(R"({"priority":5000})").starts_with("priority: "));
  EXPECT_TRUE(refused("nonsense").starts_with("the body has to be a JSON object"));
  EXPECT_FALSE(refused("{}").empty());
}

}  // namespace
}  // namespace divvy::api
