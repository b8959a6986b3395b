#include "model/job_spec.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace divvy::model {
namespace {

JobSpec spec(std::uint32_t members = 1) {
  Request::Parts parts;
  parts.share = Share(300);
  parts.gang_size = members;
  JobSpec result(*Request::create(parts));
  result.command = {"python", "train.py"};
  return result;
}

// The message about a spec that was changed to be wrong; empty if it is taken all the same.
std::string refusal(const std::function<void(JobSpec&)>& change) {
  JobSpec changed = spec();
  change(changed);
  const auto status = check(changed);
  return status ? "" : status.error().message;
}

void expect_field(std::string_view field, const std::function<void(JobSpec&)>& change) {
  const std::string message = refusal(change);
  EXPECT_TRUE(message.starts_with(std::string(field) + ": "))
      << field << " in \"" << message << '"';
}

TEST(JobSpec, ACommandAndARequestAreEnough) {
  EXPECT_TRUE(check(spec()).has_value());
  EXPECT_EQ(spec(4).members(), 4u);
  EXPECT_EQ(spec(4).least(), 4u);
}

TEST(JobSpec, EverythingAtOnceIsTaken) {
  JobSpec full = spec(4);
  full.name = "train-7b";
  full.queue = "research/vision";
  full.environment = {{"LR", "0.1"}, {"EMPTY", ""}};
  full.secrets = {{"HF_TOKEN", "HF_TOKEN"}, {"WANDB_API_KEY", "wandb"}};
  full.working_directory = "/home/ada";
  full.container = ContainerSpec{
      "localhost/train:1", {{"/data", "/data", true}}, {{8080, 80}}, std::vector<std::string>{}};
  full.least_members = 2;
  full.devices = {"0", "GPU-1a2b"};
  full.limits.cpu_milli = 4000;
  full.limits.ram = gib(8);
  full.limits.pids = 100;
  full.limits.shm = gib(1);
  full.limits.ulimits = {{"nofile", {1024, 4096}}};
  full.priority = -1000;
  full.time_limit = Seconds(3600);
  full.expected = Seconds(60);
  full.array = ArraySpec{0, 9'999, 1, 8};
  full.notify = Notify{.url = "https://hooks.example/divvy"};
  full.after = {{JobId(3), DependencyKind::kEnded}};
  full.retry = {3, Seconds(10), Seconds(60)};
  full.labels = {{"team", "vision and more"}};
  const auto status = check(full);
  EXPECT_TRUE(status.has_value()) << status.error().message;
}

TEST(JobSpec, WhatIsWrongIsNamedByItsField) {
  expect_field("name", [](JobSpec& s) { s.name = "../etc"; });
  expect_field("queue", [](JobSpec& s) { s.queue = "research//vision"; });
  expect_field("queue", [](JobSpec& s) { s.queue = ""; });
  expect_field("command", [](JobSpec& s) { s.command.clear(); });
  expect_field("command[0]", [](JobSpec& s) { s.command = {""}; });
  expect_field("command[1]", [](JobSpec& s) { s.command[1] = std::string("a\0b", 3); });
  expect_field("command[1]", [](JobSpec& s) { s.command[1].assign(200'000, 'x'); });
  for (const char* const name : {"", "A=B", "1A", "A-B", "DIVVY_SOCKET", "LD_PRELOAD",
                                 "CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY"}) {
    expect_field(fmt::format("secrets.{}", name), [&](JobSpec& s) { s.secrets[name] = "x"; });
  }
  expect_field("secrets.A", [](JobSpec& s) { s.secrets["A"] = "../x"; });
  expect_field("secrets.LR", [](JobSpec& s) {
    s.environment["LR"] = "0.1";
    s.secrets["LR"] = "x";
  });
  expect_field("secrets", [](JobSpec& s) {
    for (int i = 0; i < 33; ++i) s.secrets[fmt::format("A{}", i)] = "x";
  });
  expect_field("secrets", [](JobSpec& s) {
    s.holder = Holder::kProcess;
    s.secrets["A"] = "x";
  });
  expect_field("environment", [](JobSpec& s) { s.environment[""] = "x"; });
  expect_field("notify.url", [](JobSpec& s) { s.notify = Notify{.url = "ftp://hooks.example"}; });
  expect_field("notify.on", [](JobSpec& s) { s.notify = Notify{.url = "http://a", .on = {}}; });
  expect_field("environment.A=B", [](JobSpec& s) { s.environment["A=B"] = "x"; });
  expect_field("environment.A", [](JobSpec& s) { s.environment["A"] = std::string(1, '\0'); });
  expect_field("working_directory", [](JobSpec& s) { s.working_directory = "data"; });
  expect_field("least_members", [](JobSpec& s) { s.least_members = 2; });
  expect_field("devices[0]", [](JobSpec& s) { s.devices = {" "}; });
  expect_field("priority", [](JobSpec& s) { s.priority = 1001; });
}

TEST(JobSpec, ContainersAreChecked) {
  const auto with = [](const std::function<void(ContainerSpec&)>& change) {
    return [change](JobSpec& s) {
      s.container = ContainerSpec{"debian:12", {}, {}, {}};
      change(*s.container);
    };
  };
  EXPECT_EQ(refusal([](JobSpec& s) {
              s.container = ContainerSpec{"debian:12", {}, {}, {}};
              s.command.clear();  // The image has one.
            }),
            "");
  expect_field("container.image", with([](ContainerSpec& c) { c.image = ""; }));
  expect_field("container.image", with([](ContainerSpec& c) { c.image = "--privileged"; }));
  expect_field("container.mounts[0].source",
               with([](ContainerSpec& c) { c.mounts = {{"data", "/data"}}; }));
  expect_field("container.mounts[1].target",
               with([](ContainerSpec& c) { c.mounts = {{"/a", "/data"}, {"/b", "/data"}}; }));
  expect_field("container.ports[0].host", with([](ContainerSpec& c) { c.ports = {{0, 80}}; }));
  expect_field("container.ports[1].host",
               with([](ContainerSpec& c) { c.ports = {{80, 80}, {80, 81}}; }));
}

TEST(JobSpec, LimitsAreChecked) {
  expect_field("limits.cpu_milli", [](JobSpec& s) { s.limits.cpu_milli = 0; });
  expect_field("limits.ram", [](JobSpec& s) { s.limits.ram = Bytes(1); });
  expect_field("limits.pids", [](JobSpec& s) { s.limits.pids = 0; });
  expect_field("limits.shm", [](JobSpec& s) { s.limits.shm = gib(1); });
  expect_field("limits.ulimits.nofile", [](JobSpec& s) { s.limits.ulimits["nofile"] = {2, 1}; });
  EXPECT_EQ(refusal([](JobSpec& s) { s.limits.ulimits["nofiles"] = {1, 2}; }),
            "limits.ulimits.nofiles: there is no such limit; did you mean nofile?");
}

TEST(JobSpec, TimesAreChecked) {
  expect_field("grace", [](JobSpec& s) { s.grace = Seconds(-1); });
  expect_field("grace", [](JobSpec& s) { s.grace = Seconds::max(); });
  expect_field("minimum_run", [](JobSpec& s) { s.minimum_run = Seconds(-1); });
  expect_field("time_limit", [](JobSpec& s) { s.time_limit = Seconds(0); });
  expect_field("expected", [](JobSpec& s) { s.expected = Seconds(0); });
  expect_field("retry.pause", [](JobSpec& s) { s.retry.pause = Seconds::min(); });
  expect_field("retry.longest_pause", [](JobSpec& s) { s.retry.longest_pause = Seconds(1); });
  expect_field("retry.most", [](JobSpec& s) { s.retry.most = 1'000'000; });
}

TEST(JobSpec, ArraysAndRelationsAreChecked) {
  expect_field("array.step", [](JobSpec& s) { s.array = ArraySpec{0, 1, 0, 0}; });
  expect_field("array.last", [](JobSpec& s) { s.array = ArraySpec{2, 1, 1, 0}; });
  expect_field("array", [](JobSpec& s) { s.array = ArraySpec{0, 10'000, 1, 0}; });
  expect_field("array", [](JobSpec& s) {
    s.array = ArraySpec{0, std::numeric_limits<std::uint32_t>::max(), 1, 0};
  });
  expect_field("after[0].job", [](JobSpec& s) { s.after = {{JobId(0)}}; });
  expect_field("after", [](JobSpec& s) { s.after.assign(2'000, {JobId(1)}); });
  expect_field("labels", [](JobSpec& s) { s.labels["a b"] = "x"; });
  expect_field("labels.a", [](JobSpec& s) { s.labels["a"] = "x\ny"; });
}

TEST(JobSpec, ASliceIsOfOneMemberOrOfMembersOnOneNode) {
  Request::Parts parts;
  parts.share = Share(300);
  parts.gang_size = 2;
  JobSpec spec(*Request::create(parts));
  spec.holder = Holder::kSlice;
  EXPECT_FALSE(check(spec).has_value());
  spec.where.members_near = {Closeness::kNode, true};
  EXPECT_TRUE(check(spec).has_value());
  spec.holder = Holder::kProcess;
  EXPECT_FALSE(check(spec).has_value());
}

TEST(JobSpec, QueuesAreAtMostEightDeep) {
  EXPECT_TRUE(check_queue_path("default").has_value());
  EXPECT_TRUE(check_queue_path("a/b/c/d/e/f/g/h").has_value());
  EXPECT_FALSE(check_queue_path("a/b/c/d/e/f/g/h/i").has_value());
  EXPECT_FALSE(check_queue_path("/a").has_value());
  EXPECT_FALSE(check_queue_path("a/..").has_value());
}

TEST(JobSpec, WordsAreReadByName) {
  EXPECT_EQ(parse_job_class("Latency"), JobClass::kLatency);
  EXPECT_EQ(parse_job_class(to_string(JobClass::kBatch)), JobClass::kBatch);
  EXPECT_FALSE(parse_job_class("fast").has_value());
  for (const auto kind :
       {DependencyKind::kSucceeded, DependencyKind::kFailed, DependencyKind::kEnded}) {
    EXPECT_EQ(parse_dependency_kind(to_string(kind)), kind);
  }
  EXPECT_FALSE(parse_dependency_kind("later").has_value());
}

TEST(ArraySpec, CountsItsTasks) {
  EXPECT_EQ((ArraySpec{0, 0, 1, 0}.tasks()), 1u);
  EXPECT_EQ((ArraySpec{1, 10, 3, 0}.tasks()), 4u);
}

}  // namespace
}  // namespace divvy::model
