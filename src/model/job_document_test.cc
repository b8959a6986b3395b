#include "model/job_document.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace divvy::model {
namespace {

JobSpec full_spec() {
  JobSpec spec(Request::create({.share = Share(2500),
                                .memory = gib(10),
                                .kind = ShareKind::kCap,
                                .allowed_models = {"h200"},
                                .denied_models = {"a100"},
                                .topology = TopologyPreference::kNvlink,
                                .gang_size = 4})
                   .value());
  spec.name = "train";
  spec.queue = "research/vision";
  spec.command = {"python", "train.py", "--name", "a \"b\" \n ü"};
  spec.environment = {{"EPOCHS", "3"}, {"EMPTY", ""}};
  spec.secrets = {{"HF_TOKEN", "hub"}};
  spec.working_directory = "/home/ada";
  spec.container = ContainerSpec{.image = "debian:12",
                                 .mounts = {{"/data", "/mnt", true}},
                                 .ports = {{8080, 80}},
                                 .entry_point = std::vector<std::string>{"sh", "-c"}};
  spec.least_members = 2;
  spec.devices = {"0", "GPU-12"};
  spec.where = {.nodes = {"a", "b"},
                .nodes_denied = {"c"},
                .node_labels = {{"pool", "train"}},
                .tolerations = {"dedicated"},
                .gpus_near = {Closeness::kPcie, true},
                .members_near = {Closeness::kRack, false},
                .spread = Spread{Closeness::kNode, 2}};
  spec.job_class = JobClass::kLatency;
  spec.limits = {.cpu_milli = 1500,
                 .ram = gib(4),
                 .pids = 100,
                 .shm = mib(64),
                 .ulimits = {{"nofile", {1024, 4096}}}};
  spec.priority = -7;
  spec.preemptible = false;
  spec.grace = Seconds(90);
  spec.minimum_run = Seconds(600);
  spec.time_limit = Seconds(7200);
  spec.expected = Seconds(3601);
  spec.array = ArraySpec{.first = 1, .last = 9, .step = 2, .at_once = 3};
  spec.notify = Notify{.url = "https://hooks.example/divvy?key=1", .on = {JobEnd::kFailed}};
  spec.after = {{JobId(3), DependencyKind::kSucceeded}, {JobId(4), DependencyKind::kEnded}};
  spec.retry = {.most = 3, .pause = Seconds(5), .longest_pause = Seconds(60)};
  spec.labels = {{"team", "vision"}};
  return spec;
}

std::string refusal(std::string_view text) {
  const auto spec = read_job_spec(text);
  return spec ? "it was taken" : spec.error().message;
}

TEST(JobDocument, CarriesEveryField) {
  const JobSpec spec = full_spec();
  const auto again = read_job_spec(write_job_spec(spec));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, spec);
}

TEST(JobDocument, CarriesWhatWasLeftToItsDefault) {
  const JobSpec spec(Request::parse("1").value());
  const auto again = read_job_spec(write_job_spec(spec));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, spec);
}

TEST(JobDocument, WhatIsMissingGetsItsDefault) {
  const auto spec = read_job_spec(R"({"gpu": 0.3, "command": ["true"]})");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  JobSpec expected(Request::parse("0.3").value());
  expected.command = {"true"};
  EXPECT_EQ(*spec, expected);
}

TEST(JobDocument, AGpuCanBeAskedByItsMemoryAlone) {
  const auto spec = read_job_spec(R"({"gpu_memory": "10GiB"})");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_TRUE(spec->request.by_memory());
  EXPECT_EQ(spec->request.gpus_per_member(), 1U);
  EXPECT_EQ(read_job_spec(write_job_spec(*spec)), *spec);
  EXPECT_EQ(refusal(R"({"gpu": 0, "gpu_memory": "10GiB"})"),
            "gpu_memory: a job with gpu 0 has no GPU memory; leave one of them out");
}

TEST(JobDocument, AJobCanDoWithoutAGpu) {
  const auto spec = read_job_spec(R"({"gpu": 0, "hold_for_capacity": true})");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_TRUE(spec->request.no_gpu());
  EXPECT_TRUE(spec->hold_for_capacity);
  EXPECT_EQ(read_job_spec(write_job_spec(*spec)), *spec);
}

TEST(JobDocument, ALimitCanBeUnlimited) {
  const auto spec = read_job_spec(
      R"({"gpu":1,"limits":{"ulimits":{"memlock":-1,"core":"unlimited","nofile":{"soft":64,"hard":-1}}}})");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  const auto& ulimits = spec->limits.ulimits;
  EXPECT_EQ(ulimits.at("memlock"), (Ulimit{Ulimit::kUnlimited, Ulimit::kUnlimited}));
  EXPECT_EQ(ulimits.at("core"), ulimits.at("memlock"));
  EXPECT_EQ(ulimits.at("nofile"), (Ulimit{64, Ulimit::kUnlimited}));
  EXPECT_EQ(read_job_spec(write_job_spec(*spec)), *spec);
  EXPECT_EQ(refusal(R"({"gpu":1,"limits":{"ulimits":{"memlock":-2}}})"),
            "limits.ulimits.memlock: this has to be a whole number or \"unlimited\"");
}

TEST(JobDocument, WhereIsReadFieldByField) {
  const auto spec = read_job_spec(
      R"({"gpu":1,"where":{"nodes":["a"],"gpus_near":{"closeness":"nvlink"},"spread":{}}})");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->where.gpus_near, (Near{Closeness::kNvlink, false}));
  EXPECT_EQ(spec->where.spread, (Spread{Closeness::kNode, 1}));
  EXPECT_EQ(refusal(R"({"gpu":1,"where":{"node":["a"]}})"),
            "where.node: there is no such field; did you mean where.nodes?");
  EXPECT_EQ(refusal(R"({"gpu":1,"where":{"spread":{"domain":"rak"}}})"),
            "where.spread.domain: \"rak\" is no nearness; write any, zone, rack, node, numa, pcie "
            "or nvlink");
}

TEST(JobDocument, TakesNumbersAndTextForQuantities) {
  const auto words = read_job_spec(
      R"({"gpu":"2.5","gpu_memory":"1GiB","time_limit":"1h30m","limits":{"ulimits":{"nofile":9}},
          "after":[7],"environment":{"N":3}})");
  const auto numbers = read_job_spec(
      R"({"gpu":2.5,"gpu_memory":1073741824,"time_limit":5400,
          "limits":{"ulimits":{"nofile":{"soft":9,"hard":9}}},"after":[{"job":7}],
          "environment":{"N":"3"}})");
  ASSERT_TRUE(words.has_value()) << words.error().message;
  ASSERT_TRUE(numbers.has_value()) << numbers.error().message;
  EXPECT_EQ(*words, *numbers);
}

TEST(JobDocument, EveryRefusalNamesTheField) {
  EXPECT_EQ(refusal("[]"), "this has to be an object with named fields");
  EXPECT_TRUE(refusal("{").starts_with("this is not JSON")) << refusal("{");
  EXPECT_TRUE(refusal("{}").starts_with("gpu: it is missing"));
  EXPECT_TRUE(refusal(R"({"gpu":true})").starts_with("gpu: "));
  EXPECT_TRUE(refusal(R"({"gpu":"x"})").starts_with("gpu: "));
  EXPECT_TRUE(refusal(R"({"gpu":1,"gpu_memory":0})").starts_with("gpu_memory: "));
  EXPECT_TRUE(refusal(R"({"gpu":1,"members":0})").starts_with("members: "));
  EXPECT_TRUE(refusal(R"({"gpu":1,"command":"x"})").starts_with("command: this has to be a list"));
  EXPECT_TRUE(refusal(R"({"gpu":1,"command":["x",1]})").starts_with("command[1]: "));
  EXPECT_TRUE(refusal(R"({"gpu":1,"environment":{"A":{}}})").starts_with("environment.A: "));
  EXPECT_TRUE(refusal(R"({"gpu":1,"container":{"ports":[{"host":70000}]}})")
                  .starts_with("container.ports[0].host: "));
  EXPECT_TRUE(refusal(R"({"gpu":1,"limits":{"ulimits":{"nofile":{"soft":"x"}}}})")
                  .starts_with("limits.ulimits.nofile.soft: "));
  EXPECT_TRUE(refusal(R"({"gpu":1,"grace":"soon"})").starts_with("grace: "));
  EXPECT_TRUE(refusal(R"({"gpu":1,"class":"gold"})").starts_with("class: "));
  EXPECT_TRUE(
      refusal(R"({"gpu":1,"after":[{"job":1,"kind":"never"}]})").starts_with("after[0].kind: "));
}

TEST(JobDocument, AFieldThatThereIsNotIsRefusedWithTheOneThatWasMeant) {
  EXPECT_EQ(refusal(R"({"gpu":1,"comand":["x"]})"),
            "comand: there is no such field; did you mean command?");
  EXPECT_EQ(refusal(R"({"gpu":1,"container":{"imgae":"x"}})"),
            "container.imgae: there is no such field; did you mean container.image?");
  EXPECT_EQ(refusal(R"({"gpu":1,"zzzzzzzz":1})"), "zzzzzzzz: there is no such field");
}

TEST(JobDocument, TextFromOutsideCannotControlTheTerminal) {
  EXPECT_EQ(refusal("{\"gpu\":1,\"\\u001b[31m\":1}").find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace divvy::model
