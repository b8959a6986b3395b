// The API over a cluster: on what the controller's own simulated cluster comes to, and on an API
// server in memory.
#include "kube_api/cluster_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kube/pod_request.h"
#include "kube_api/cluster_api_fixture.h"

namespace divvy::kube_api {
namespace {

using ::testing::AllOf;
using testing::ClusterApiTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
namespace json = boost::json;

TEST_F(ClusterApiTest, PodsAreJobsWithTheirNamespaceAsOwner) {
  run("train", "1");
  run("serve", "1");
  cluster_.create_pod({.name = "next", .gpu = "0.5"});
  controller_.work();
  wait(std::chrono::seconds(1));
  controller_.work();
  show();
  EXPECT_THAT(
      listed("?order=oldest"),
      UnorderedElementsAre("team-a train running", "team-a serve running", "team-a next queued"));
  EXPECT_THAT(listed("?state=queued"), ElementsAre("team-a next queued"));
  EXPECT_THAT(listed("?name=serve"), ElementsAre("team-a serve running"));
  EXPECT_THAT(listed("?owner=team-b"), IsEmpty());

  const json::object train = get("/v1/jobs/" + id("train"));
  EXPECT_EQ(train.at("shareThousandths"), 1000);
  EXPECT_EQ(train.at("running").at(0).at("slices").as_array().size(), 1);
  EXPECT_FALSE(train.at("running").at(0).at("node").as_string().empty());
  EXPECT_TRUE(train.at("waits").is_null());
}

TEST_F(ClusterApiTest, WhyAJobWaitsIsWhatTheControllerTold) {
  run("train", "1");
  run("serve", "1");
  cluster_.create_pod({.name = "next", .gpu = "0.5"});
  controller_.work();
  show();
  const std::string told = condition("next");
  const json::object why = get("/v1/jobs/" + id("next") + "/explain");
  EXPECT_EQ(why.at("state"), "queued");
  EXPECT_EQ(why.at("waits").at("kind"), "full");
  EXPECT_THAT(told, HasSubstr(std::string_view(why.at("waits").at("text").as_string())));
  EXPECT_THAT(told, HasSubstr(std::string_view(why.at("details").as_string())));
  EXPECT_FALSE(why.at("details").as_string().empty());
}

TEST_F(ClusterApiTest, PodsOfOthersSayWhoMadeThem) {
  cluster_.create_pod(
      {.name = "web-7c9f-x2",
       .metadata = owned_by("apps/v1", "ReplicaSet", "web-7c9f",
                            {{"labels", json::object{{"pod-template-hash", "7c9f"}}}})});
  show();
  const json::object web = get("/v1/jobs/" + id("web-7c9f-x2"));
  EXPECT_EQ(web.at("workload").at("kind"), "Deployment");
  EXPECT_EQ(web.at("workload").at("name"), "web");
  const auto deleted = ask("DELETE", "/v1/jobs/" + id("web-7c9f-x2"));
  EXPECT_EQ(deleted.status, 501);
  EXPECT_THAT(detail(deleted), AllOf(HasSubstr("belongs to Deployment web"),
                                     HasSubstr("kubectl -n team-a edit deployment web")));
}

TEST_F(ClusterApiTest, AGangIsOneJobWithAMemberForEachPod) {
  for (const char* name : {"rank-0", "rank-1"}) {
    cluster_.create_pod(
        {.name = name, .gpu = "1", .gang = kube::PodGang{.name = "team", .size = 2}});
  }
  settle();
  EXPECT_THAT(listed(), ElementsAre("team-a team running"));
  const json::object team = get("/v1/jobs/" + id("team"));
  EXPECT_EQ(team.at("members"), 2);
  EXPECT_EQ(team.at("running").as_array().size(), 2);
  EXPECT_EQ(team.at("pods"), (json::array{"rank-0", "rank-1"}));
  EXPECT_EQ(id("rank-1"), id("team")) << "the name of a pod names its job";
}

TEST_F(ClusterApiTest, PagesFollowEachOther) {
  for (const char* name : {"a", "b", "c"}) cluster_.create_pod({.name = name});
  show();
  const json::object first = get("/v1/jobs?limit=2");
  ASSERT_EQ(first.at("items").as_array().size(), 2);
  EXPECT_THAT(listed("?limit=2&after=" + json::serialize(first.at("next"))), SizeIs(1));
  EXPECT_TRUE(get("/v1/jobs?limit=3").at("next").is_null());
}

TEST_F(ClusterApiTest, PagesAreOfOneMomentAndTheClusterIsListedOnceForThem) {
  for (const char* name : {"a", "b", "c", "d"}) cluster_.create_pod({.name = name});
  show();
  const json::object first = get("/v1/jobs?limit=2");
  const std::string behind = "?limit=1&after=" + json::serialize(first.at("next"));
  const std::string last(first.at("items").at(1).at("name").as_string());
  ASSERT_TRUE(api_.remove("/api/v1/namespaces/team-a/pods/" + last, {}));
  const std::size_t asked = api_.requests().size();
  const json::object second = get("/v1/jobs" + behind);
  EXPECT_THAT(second.at("items").as_array(), SizeIs(1)) << "those behind one that has gone";
  EXPECT_THAT(listed("?limit=1&after=" + json::serialize(second.at("next"))), SizeIs(1));
  EXPECT_EQ(api_.requests().size(), asked);
  // The last page was the last that is kept.
  const auto late = ask("GET", "/v1/jobs" + behind);
  EXPECT_EQ(late.status, 409);
  EXPECT_THAT(detail(late), HasSubstr("begin anew"));
}

TEST_F(ClusterApiTest, WhoeverMaySeeTheirOwnNamespaceOnlySeesThat) {
  cluster_.create_pod({.name = "mine"});
  cluster_.create_pod({.name = "theirs", .space = "team-b"});
  show();
  EXPECT_THAT(listed("?order=oldest"), SizeIs(2));
  api_.set_fault([](const std::string&, const std::string& path) -> std::optional<Error> {
    if (path.find("/namespaces/team-a/") != std::string::npos) return std::nullopt;
    return Error{ErrorCode::kPermissionDenied, "you may not"};
  });
  EXPECT_THAT(listed(), ElementsAre("team-a mine queued"));
}

TEST_F(ClusterApiTest, WhatIsNotThereSaysSo) {
  const auto none = ask("GET", "/v1/jobs/17");
  EXPECT_EQ(none.status, 404);
  EXPECT_THAT(detail(none), HasSubstr("there is no job 17 in the cluster"));
  EXPECT_EQ(ask("GET", "/v1/nothing").status, 404);
  const auto cordon = ask("POST", "/v1/gpus/0/cordon");
  EXPECT_EQ(cordon.status, 501);
  EXPECT_THAT(detail(cordon), HasSubstr("docs/kubernetes-commands.md"));
}

TEST_F(ClusterApiTest, AnApiServerThatDoesNotAnswerIsSaid) {
  api_.set_away(true);
  EXPECT_EQ(ask("GET", "/v1/jobs").status, 503);
}

// --- Submit ---

constexpr const char* kGang = R"json({"name": "train", "gpu": "0.5", "members": 2,
  "container": {"image": "train:1"}, "command": ["python", "train.py", "$(HOME)"],
  "environment": {"EPOCHS": "3"}, "priority": 5, "queue": "default/night", "time_limit": "1h",
  "class": "latency"})json";

TEST_F(ClusterApiTest, SubmitMakesAnIndexedJobWhosePodsAskForTheSame) {
  const auto submitted = ask("POST", "/v1/jobs", kGang);
  ASSERT_EQ(submitted.status, 201) << submitted.body;
  const json::value job = json::parse(submitted.body).at("items").at(0);
  EXPECT_EQ(job.at("name"), "train");
  EXPECT_EQ(job.at("state"), "queued");
  EXPECT_EQ(job.at("members"), 2);
  EXPECT_EQ(job.at("shareThousandths"), 500);
  EXPECT_EQ(job.at("priority"), 5);
  EXPECT_EQ(json::serialize(job.at("id")), id("train")) << "it keeps its number";

  const json::object made = *api_.get("/apis/batch/v1/namespaces/team-a/jobs/train-abcde");
  EXPECT_EQ(made.at("spec").at("completionMode"), "Indexed");
  EXPECT_EQ(made.at("spec").at("parallelism"), 2);
  const json::object pod = made.at("spec").at("template").as_object();
  const json::value& container = pod.at("spec").at("containers").at(0);
  EXPECT_EQ(container.at("args"), (json::array{"python", "train.py", "$$(HOME)"}));
  EXPECT_EQ(pod.at("spec").at("activeDeadlineSeconds"), 3600);
  EXPECT_EQ(pod.at("spec").at("subdomain"), "train-abcde");
  const std::string environment = json::serialize(container.at("env"));
  EXPECT_THAT(environment, AllOf(HasSubstr(R"("MASTER_ADDR","value":"train-abcde-0.train-abcde")"),
                                 HasSubstr(R"("EPOCHS","value":"3")"), HasSubstr(R"("RANK")")));
  // As the webhook will read it.
  const auto asked = kube::read_pod_request(pod, {});
  ASSERT_TRUE(asked && *asked) << (asked ? "nothing" : asked.error().message);
  EXPECT_EQ((*asked)->spec.request.share(), Share(500));
  EXPECT_EQ((*asked)->spec.priority, 5);
  EXPECT_EQ((*asked)->spec.queue, "default/night");
  EXPECT_EQ((*asked)->spec.job_class, model::JobClass::kLatency);

  const json::object service = *api_.get("/api/v1/namespaces/team-a/services/train-abcde");
  EXPECT_EQ(service.at("spec").at("clusterIP"), "None");
  EXPECT_EQ(service.at("metadata").at("ownerReferences").at(0).at("uid"),
            made.at("metadata").at("uid"));
}

TEST_F(ClusterApiTest, WhatOpensASessionIsInASecretThatGoesWithItsJob) {
  const auto submitted = ask("POST", "/v1/jobs", R"json({"name": "jupyter", "gpu": "0.1",
    "container": {"image": "lab:1", "entry_point": ["sh"]}, "command": ["-c", "exec jupyter-lab"],
    "environment": {"JUPYTER_TOKEN": "t0ken", "SESSION_TOKEN": "t0ken"},
    "secrets": {"HF_TOKEN": "hub"},
    "labels": {"divvy.session": "jupyter", "divvy.session.port": "8000"}})json");
  ASSERT_EQ(submitted.status, 201) << submitted.body;
  const json::object job = *api_.get("/apis/batch/v1/namespaces/team-a/jobs/jupyter-abcde");
  EXPECT_THAT(json::serialize(job), Not(HasSubstr("t0ken")));
  const json::array& variables =
      job.at("spec").at("template").at("spec").at("containers").at(0).at("env").as_array();
  EXPECT_THAT(
      json::serialize(variables),
      AllOf(HasSubstr(R"("JUPYTER_TOKEN","valueFrom":{"secretKeyRef":{"name":"jupyter-abcde",)"
                      R"("key":"JUPYTER_TOKEN"}})"),
            HasSubstr(R"("HF_TOKEN","valueFrom":{"secretKeyRef":{"name":"hub",)"
                      R"("key":"HF_TOKEN"}})")));

  json::object secret = *api_.get("/api/v1/namespaces/team-a/secrets/jupyter-abcde");
  EXPECT_EQ(secret.at("stringData").at("SESSION_TOKEN"), "t0ken");
  EXPECT_EQ(secret.at("metadata").at("ownerReferences").at(0).at("uid"),
            job.at("metadata").at("uid"));
  EXPECT_THAT(ask("GET", "/v1/jobs").body, Not(HasSubstr("t0ken"))) << "in no list";
  // As the API server has it from then on.
  secret["data"] = json::object{{"SESSION_TOKEN", "dDBrZW4="}};
  api_.put("/api/v1/secrets", secret);
  const json::object found = get("/v1/jobs/" + id("jupyter"));
  EXPECT_EQ(found.at("spec").at("environment").at("SESSION_TOKEN"), "t0ken");
  EXPECT_EQ(found.at("spec").at("labels").at("divvy.session.port"), "8000");
}

TEST_F(ClusterApiTest, AMemberKeepsItsRankWhileThePodOfAnotherIsNotThere) {
  ASSERT_EQ(ask("POST", "/v1/jobs", kGang).status, 201);
  // The one with index 0 was evicted, and its Job has not made another one yet.
  api_.put("/api/v1/pods", json::parse(R"json({
    "metadata": {"name": "train-abcde-1-x", "namespace": "team-a",
      "labels": {"divvy.dev/job": "train-abcde", "batch.kubernetes.io/job-completion-index": "1"},
      "annotations": {"divvy.dev/request": "{\"version\": 1, \"dialect\": \"divvy\", \"containers\": [\"main\"], \"spec\": {\"gpu\": \"0.5\", \"holder\": \"slice\"}}"},
      "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train-abcde", "uid": "j",
                           "controller": true}]},
    "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "train:1"}],
             "resourceClaims": [{"name": "divvy", "resourceClaimName": "divvy-x"}]},
    "status": {"phase": "Running", "containerStatuses": [
      {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}}]}})json")
                               .as_object());
  const json::object members = get("/v1/jobs/" + id("train") + "/members");
  ASSERT_EQ(members.at("items").as_array().size(), 1U);
  EXPECT_EQ(members.at("items").at(0).at("name"), "train-abcde-1-x");
  EXPECT_EQ(members.at("items").at(0).at("rank"), 1);
  EXPECT_EQ(members.at("items").at(0).at("phase"), "living") << "as machines say it";
}

TEST_F(ClusterApiTest, AJobOfAnotherNamespaceWithTheSameNumberIsNotInTheWayOfOnesOwn) {
  // Both come to the same number.
  for (const auto& [space, name] :
       {std::pair("team-a", "train-320228"), std::pair("team-b", "train-98682")}) {
    api_.put("/apis/batch/v1/jobs",
             {{"metadata", json::object{{"name", name},
                                        {"namespace", space},
                                        {"labels", json::object{{"divvy.dev/job", name}}}}},
              {"spec", json::object{{"completions", 1}}}});
  }
  EXPECT_THAT(listed(), SizeIs(2));
  ASSERT_EQ(id("train-320228"), id("train-98682"));
  EXPECT_EQ(get("/v1/jobs/" + id("train-320228")).at("owner"), "team-a");
}

TEST_F(ClusterApiTest, OneMemberNeedsNoService) {
  ASSERT_EQ(ask("POST", "/v1/jobs", R"({"gpu": "1", "container": {"image": "a"}})").status, 201);
  EXPECT_TRUE(api_.get("/apis/batch/v1/namespaces/team-a/jobs/job-abcde"));
  EXPECT_FALSE(api_.get("/api/v1/namespaces/team-a/services/job-abcde"));
}

TEST_F(ClusterApiTest, SubmitRefusesWhatPodsCannotBeTold) {
  const auto refused = [&](const std::string& fields) {
    const auto answer = ask("POST", "/v1/jobs", R"({"gpu": "1")" + fields + "}");
    EXPECT_GE(answer.status, 400) << answer.body;
    return detail(answer);
  };
  EXPECT_THAT(refused(R"(, "command": ["ls"])"), HasSubstr("--image IMAGE"));
  const std::string image = R"(, "container": {"image": "a"})";
  EXPECT_THAT(refused(image + R"(, "array": {"first": 0, "last": 3})"), HasSubstr("array: "));
  EXPECT_THAT(refused(image + R"(, "after": [{"job": 3}])"), HasSubstr("after: "));
  EXPECT_THAT(
      refused(R"(, "container": {"image": "a", "mounts": [{"source": "/a", "target": "/b"}]})"),
      HasSubstr("container.mounts: "));
  EXPECT_THAT(listed(), IsEmpty()) << "nothing was made";
}

TEST_F(ClusterApiTest, ARequestThatIsSentTwiceMakesOneJob) {
  const net::HttpHeaders key{{"idempotency-key", "k"}};
  const auto first = ask("POST", "/v1/jobs", kGang, key);
  ASSERT_EQ(first.status, 201);
  const auto again = ask("POST", "/v1/jobs", kGang, key);
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(json::parse(first.body).at("items").at(0).at("id"),
            json::parse(again.body).at("items").at(0).at("id"));
  EXPECT_EQ(
      ask("POST", "/v1/jobs", R"({"name": "train", "gpu": "1", "container": {"image": "b"}})", key)
          .status,
      409);
}

TEST_F(ClusterApiTest, AJobWhoseServiceCannotBeMadeIsNotLeftBehind) {
  api_.set_fault([](const std::string&, const std::string& path) -> std::optional<Error> {
    if (!path.ends_with("/services")) return std::nullopt;
    return Error{ErrorCode::kPermissionDenied, "no services for you"};
  });
  const auto refused = ask("POST", "/v1/jobs", kGang);
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(detail(refused), HasSubstr("no services for you"));
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(ClusterApiTest, SubmittedJobsAreSuspendedResumedAndDeleted) {
  ASSERT_EQ(ask("POST", "/v1/jobs", kGang).status, 201);
  const std::string job = "/v1/jobs/" + id("train");
  EXPECT_EQ(json::parse(ask("POST", job + "/suspend").body).at("state"), "suspended");
  EXPECT_EQ(json::parse(ask("POST", job + "/resume").body).at("state"), "queued");
  EXPECT_EQ(json::parse(ask("DELETE", job).body).at("state"), "cancelled");
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_EQ(ask("DELETE", job).status, 404);
}

TEST_F(ClusterApiTest, APodOfItsOwnIsDeletedAndNothingElseWithIt) {
  cluster_.create_pod({.name = "one"});
  cluster_.create_pod({.name = "two"});
  show();
  EXPECT_EQ(ask("DELETE", "/v1/jobs/" + id("one")).status, 200);
  EXPECT_THAT(listed("?state=queued,stopping"), Not(IsEmpty()));
  EXPECT_TRUE(api_.get("/api/v1/namespaces/team-a/pods/two"));
  EXPECT_EQ(ask("POST", "/v1/jobs/" + id("two") + "/suspend").status, 501);
}

// --- Machines ---

TEST_F(ClusterApiTest, GpusOfAllNodesSayWhoHoldsThem) {
  run("train", "0.5");
  show();
  const json::object gpus = get("/v1/gpus");
  ASSERT_EQ(gpus.at("items").as_array().size(), 2);
  std::uint64_t held = 0;
  for (const json::value& gpu : gpus.at("items").as_array()) {
    held += gpu.at("heldShareThousandths").to_number<std::uint64_t>();
    EXPECT_FALSE(gpu.at("node").as_string().empty());
  }
  EXPECT_EQ(held, 500);
  const json::object stats = get("/v1/stats");
  EXPECT_EQ(stats.at("tenants").as_array().size(), 1);
  EXPECT_EQ(stats.at("gpus").at(1).at("index"), 1) << "numbers are of the whole cluster";
}

TEST_F(ClusterApiTest, UsageIsWhatJobsThatAreStillThereHeld) {
  put_pod("train", "Succeeded");
  const json::object usage = get("/v1/usage?by=user");
  ASSERT_EQ(usage.at("items").as_array().size(), 1);
  EXPECT_EQ(usage.at("items").at(0).at("name"), "team-a");
  EXPECT_EQ(usage.at("items").at(0).at("heldShareThousandthSeconds"), 200 * 60);
  EXPECT_EQ(ask("GET", "/v1/usage?by=hour").status, 501);
}

TEST_F(ClusterApiTest, QueuesAreThoseOfTheCluster) {
  api_.put("/apis/divvy.dev/v1/queues",
           {{"metadata", json::object{{"name", "research"}}},
            {"spec", json::object{{"quota", json::object{{"gpus", "2"}}}}},
            {"status",
             json::object{{"held", json::object{{"gpus", "1.5"}, {"jobs", 3}}}, {"waiting", 4}}}});
  const json::object queues = get("/v1/queues");
  const json::value& research = queues.at("items").at(0);
  EXPECT_EQ(research.at("path"), "research");
  EXPECT_EQ(research.at("quota").at("gpu"), "2");
  EXPECT_EQ(research.at("held").at("gpu"), "1.5");
  EXPECT_EQ(research.at("waiting"), 4);
}

// --- What if ---

TEST_F(ClusterApiTest, MoreNodesLetTheLineMove) {
  for (const char* name : {"a", "b"}) run(name, "1");
  cluster_.create_pod({.name = "late", .gpu = "1"});
  controller_.work();
  show();
  for (const char* const collection : {"/api/v1/nodes", "/api/v1/namespaces"}) {
    for (const json::object& object : cluster_.api().list(collection)) {
      api_.put(collection, object);
    }
  }
  const auto asked = ask("POST", "/v1/what-if", R"({"add": [{"count": 1}]})");
  ASSERT_EQ(asked.status, 200) << asked.body;
  const json::value answer = json::parse(asked.body);
  EXPECT_EQ(answer.at("asItIs").at("gpus").to_number<double>(), 2);
  EXPECT_EQ(answer.at("changed").at("gpus").to_number<double>(), 3);
  ASSERT_EQ(answer.at("jobs").as_array().size(), 1);
  const json::value& late = answer.at("jobs").at(0);
  EXPECT_EQ(late.at("wouldStartInSeconds"), 0);
  EXPECT_GT(late.at("startsInSeconds").to_number<std::int64_t>(), 0);
  for (const std::string& request : api_.requests()) {
    EXPECT_THAT(request, ::testing::StartsWith("GET ")) << "nothing is written";
  }
}

}  // namespace
}  // namespace divvy::kube_api
