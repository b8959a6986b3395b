#include "api/openapi.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>

#include "api/job_documents.h"
#include "api/openapi_schemas.h"
#include "api/queue_documents.h"
#include "api/routes.h"
#include "base/text.h"
#include "model/job_document.h"
#include "model/testing.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using Problems = std::vector<std::string>;

class OpenApi : public ::testing::Test {
 protected:
  [[nodiscard]] Problems check(const Traffic& traffic) const {
    return check_traffic(document_, traffic);
  }
  [[nodiscard]] Problems answer(const std::string& path, const json::value& body,
                                int status = 200) const {
    return check({.method = "GET",
                  .path = path,
                  .query = {},
                  .request_body = {},
                  .status = status,
                  .content_type = "application/json",
                  .body = json::serialize(body)});
  }

  const json::object document_ = openapi_document();
};

model::Job full_job() {
  const auto spec = parse_job_request(
      R"({"name":"train","queue":"research/vision","command":["python"],"environment":{"N":3},
          "working_directory":"/home/ada","container":{"image":"debian:12",
          "mounts":[{"source":"/data","target":"/data","read_only":true}],
          "ports":[{"host":8080,"container":80}],"entry_point":["sh"]},"gpu":0.3,
          "gpu_memory":"10GiB","members":4,"limits":{"cpu_milli":1500,"ram":"4GiB","pids":9,
          "shm":1048576,"ulimits":{"nofile":{"soft":1,"hard":2}}},"time_limit":"2h",
          "expected":"1h","after":[3],"labels":{"team":"vision"},"where":{"nodes":["node-a"],
          "node_labels":{"pool":"train"},"spread":{"domain":"rack","most":2}}})");
  model::Job job(model::JobId(7), "ada", spec.value(), {});
  job.spec.array = model::ArraySpec{.first = 0, .last = 3};
  job.task = model::ArrayTask{.array = model::JobId(7), .index = 0};
  job.history.push_back({});
  job.started = job.ended = job.not_before = WallTime{};
  job.stopping = model::StopReason::kIdle;
  job.members.push_back({.rank = 0,
                         .node = "node-a",
                         .slices = {model::Slice::create(model::test_uuid(1), gib(10), Share(300),
                                                         model::ShareKind::kCap)
                                        .value()},
                         .end = model::MemberEnd{}});
  return job;
}

TEST_F(OpenApi, EveryReferenceLeadsSomewhereAndEverySchemaIsUsed) {
  const std::string text = json::serialize(document_);
  std::set<std::string> used;
  constexpr std::string_view kReference = "\"#/components/schemas/";
  for (std::size_t at = text.find(kReference); at != std::string::npos;
       at = text.find(kReference, at + 1)) {
    const std::size_t start = at + kReference.size();
    used.insert(text.substr(start, text.find('"', start) - start));
  }
  std::set<std::string> described;
  for (const auto& schema : document_.at("components").at("schemas").as_object()) {
    described.emplace(schema.key());
  }
  EXPECT_EQ(used, described);
}

TEST_F(OpenApi, NoOperationIsThereTwice) {
  std::set<std::string> ids;
  std::set<std::string> places;
  for (const Route& row : routes()) {
    EXPECT_TRUE(ids.emplace(row.id).second) << row.id;
    EXPECT_TRUE(places.insert(std::string(row.method) + " " + std::string(row.path)).second);
  }
}

TEST_F(OpenApi, JobsAreAsDescribedInsideAndOutside) {
  for (const JobDetail detail : {JobDetail::kInside, JobDetail::kOutside}) {
    EXPECT_EQ(answer("/v1/jobs/7", job_document(full_job(), detail)), Problems{});
  }
  const model::Job plain(model::JobId(1), "ada",
                         parse_job_request(R"({"gpu":1,"command":["x"]})").value(), {});
  EXPECT_EQ(answer("/v1/jobs/1", job_document(plain, JobDetail::kInside)), Problems{});
}

TEST_F(OpenApi, EveryFieldOfAJobFileIsDescribed) {
  std::set<std::string> described;
  for (const SchemaRow& row : openapi_schemas()) {
    if (row.name != "JobSpec") continue;
    for (const FieldRow& field : row.fields) described.emplace(field.name);
  }
  std::set<std::string> written;
  const json::value spec = json::parse(model::write_job_spec(full_job().spec));
  for (const auto& field : spec.as_object()) written.emplace(field.key());
  EXPECT_EQ(described, written);
}

TEST_F(OpenApi, PeopleTokensUsageAndSettingsAreAsDescribed) {
  const store::TokenRecord token{.id = "a",
                                 .user = "ada",
                                 .label = "",
                                 .created = {},
                                 .expires = {},
                                 .last_used = {},
                                 .revoked = {}};
  const auto list = [](const char* kind, json::object item) {
    return json::object{
        {"apiVersion", "divvy/v1"}, {"kind", kind}, {"items", json::array{std::move(item)}}};
  };
  EXPECT_EQ(answer("/v1/tokens", list("TokenList", token_document(token))), Problems{});
  EXPECT_EQ(answer("/v1/people", list("PersonList", person_document({.name = "ada",
                                                                     .role = model::Role::kAdmin,
                                                                     .uid = 7,
                                                                     .created = {},
                                                                     .disabled = false}))),
            Problems{});
  EXPECT_EQ(answer("/v1/usage", list("UsageReport", usage_document({}))), Problems{});
  EXPECT_EQ(answer("/v1/jobs/7/attempts",
                   list("AttemptList", attempt_document({1, full_job().members, {}}))),
            Problems{});
  const std::string queue = write_queue_settings({});
  EXPECT_EQ(check({.method = "PUT",
                   .path = "/v1/queues/research/vision",
                   .query = {},
                   .request_body = R"({"gpu":4,"memory":null,"idle_after":"1h"})",
                   .status = 200,
                   .content_type = "application/json",
                   .body = queue}),
            Problems{});
}

TEST_F(OpenApi, WhatIsNotDescribedIsFound) {
  json::object job = job_document(full_job(), JobDetail::kOutside);
  job["colour"] = "red";
  job["id"] = "seven";
  job.erase("owner");
  EXPECT_EQ(answer("/v1/jobs/7", job),
            (Problems{"answer.owner: is missing", "answer.id: is no integer: \"seven\"",
                      "answer.colour: is not described"}));
  EXPECT_EQ(answer("/v1/jobs/7", job_document(full_job(), JobDetail::kOutside), 202),
            Problems{"status 202: is not described"});
  EXPECT_EQ(answer("/v1/nothing", json::object{}),
            Problems{"GET /v1/nothing: worked and is not described"});
  EXPECT_EQ(answer("/v1/nothing", json::object{}, 404), Problems{});
  EXPECT_EQ(check({.method = "GET",
                   .path = "/v1/jobs",
                   .query = "state=queued&colour=red",
                   .request_body = {},
                   .status = 200,
                   .content_type = "application/json",
                   .body = R"({"apiVersion":"a","kind":"b","items":[]})"}),
            Problems{"?colour: was taken and is not described"});
}

// The document is as strict as the server: what it lets through is described, what it refuses is
// not.
TEST_F(OpenApi, WhatTheServerRefusesOfAJobTheDocumentRefusesToo) {
  const auto sent = [this](const std::string& job) {
    return check({.method = "POST",
                  .path = "/v1/jobs",
                  .query = {},
                  .request_body = job,
                  .status = 201,
                  .content_type = "application/json",
                  .body = R"({"apiVersion":"a","kind":"b","items":[]})"});
  };
  EXPECT_EQ(sent(R"({"gpu":1,"command":["x"]})"), Problems{});
  for (const char* field :
       {R"("colour":"red")", R"("name":"-x")", R"("queue":"a//b")", R"("members":0)",
        R"("priority":1001)", R"("priority":-1001)", R"("class":"fast")", R"("topology":"ring")",
        R"("mode":"mig")", R"("after":[0])", R"("after":[{"job":0}])", R"("labels":{"a":[]})",
        R"("stdin":"yes")", R"("container":{})", R"("container":{"image":"a","colour":"red"})",
        R"("limits":{"colour":1})", R"("retry":{"most":-1})",
        R"("where":{"spread":{"domain":"street"}})", R"("array":{"first":-1,"last":3})"}) {
    const std::string job = fmt::format(R"({{"gpu":1,"command":["x"],{}}})", field);
    EXPECT_FALSE(parse_job_request(job).has_value()) << job;
    EXPECT_NE(sent(job), Problems{}) << job;
  }
}

TEST_F(OpenApi, AnIdIsAPositiveNumberAndAStateOneOfItsWords) {
  json::object job = job_document(full_job(), JobDetail::kOutside);
  job["id"] = 0;
  job["state"] = "tired";
  EXPECT_EQ(answer("/v1/jobs/7", job).size(), 2U);
  for (const auto& [path, operations] : document_.at("paths").as_object()) {
    for (const auto& [method, operation] : operations.as_object()) {
      EXPECT_FALSE(operation.at("responses").as_object().contains("default")) << path;
      for (const json::value& parameter : operation.at("parameters").as_array()) {
        if (parameter.at("in") != "path" || !path.starts_with("/v1/jobs/")) continue;
        EXPECT_EQ(parameter.at("schema").at("minimum"), 1) << path;
      }
    }
  }
}

TEST_F(OpenApi, RefusalsAreProblems) {
  Traffic traffic{.method = "POST",
                  .path = "/v1/jobs",
                  .query = {},
                  .request_body = "nonsense",
                  .status = 400,
                  .content_type = "application/problem+json",
                  .body = R"({"type":"about:blank","title":"x","status":400,"detail":"gpu: ..."})"};
  EXPECT_EQ(check(traffic), Problems{});
  traffic.content_type = "text/plain";
  EXPECT_EQ(check(traffic), Problems{"answer: text/plain is not described"});
}

TEST_F(OpenApi, TheWordPruneIsNoNumberOfAJob) {
  EXPECT_EQ(check({.method = "POST",
                   .path = "/v1/jobs/prune",
                   .query = {},
                   .request_body = R"({"older_than":"1d"})",
                   .status = 200,
                   .content_type = "application/json",
                   .body = R"({"apiVersion":"a","kind":"b","jobs":[1,2]})"}),
            Problems{});
}

}  // namespace
}  // namespace divvy::api
