#include "sim/scenario.h"

#include <gtest/gtest.h>

#include <fstream>

namespace divvy::sim {
namespace {

Scenario read(std::string_view text) {
  auto scenario = parse_scenario(text, "test.scenario");
  EXPECT_TRUE(scenario.has_value()) << scenario.error().message;
  return scenario ? *std::move(scenario) : Scenario{};
}

std::string refused(std::string_view text) {
  const auto scenario = parse_scenario(text, "test.scenario");
  if (scenario) return "accepted";
  EXPECT_EQ(scenario.error().code, ErrorCode::kInvalidArgument);
  return scenario.error().message;
}

// A line after a node and a job that can be named.
std::string refused_line(std::string_view line) {
  const std::string text = fmt::format("node a gpus=4\nsubmit j gpus=1\n{}\n", line);
  const std::string message = refused(text);
  EXPECT_TRUE(message.starts_with("test.scenario:3: ")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message.substr(std::min(message.size(), std::string("test.scenario:3: ").size()));
}

TEST(Scenario, ReadsNodes) {
  const Scenario scenario = read(
      "# two kinds\n"
      "policy fgd\n"
      "node a gpus=4 model=\"NVIDIA H200\" memory=141GiB cpus=96 ram=1TiB rack=r1 zone=east "
      "nvlink=0,1/2-3 numa=0-3 labels=pool=train,disk=ssd taints=dedicated max-members=9\n"
      "nodes b count=3 gpus=0   # no GPUs\n"
      "exclude red b-1\n");
  EXPECT_EQ(scenario.settings.policy, "fgd");
  ASSERT_EQ(scenario.nodes.size(), 4U);
  const place::NodeSpec& a = scenario.nodes[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.cpu_milli, 96'000U);
  EXPECT_EQ(a.ram, tib(1));
  EXPECT_EQ(a.rack, "r1");
  EXPECT_EQ(a.zone, "east");
  EXPECT_EQ(a.max_members, 9U);
  EXPECT_EQ(a.labels.at("pool"), "train");
  EXPECT_EQ(a.labels.at("disk"), "ssd");
  EXPECT_EQ(a.taints, std::vector<std::string>{"dedicated"});
  ASSERT_EQ(a.devices.size(), 4U);
  EXPECT_EQ(a.devices[3].model, "NVIDIA H200");
  EXPECT_EQ(a.devices[3].memory, gib(141));
  EXPECT_EQ(a.devices[1].nvlink_island, 0U);
  EXPECT_EQ(a.devices[2].nvlink_island, 1U);
  EXPECT_EQ(a.devices[2].numa_node, 0U);
  EXPECT_EQ(a.devices[2].pcie_switch, std::nullopt);
  EXPECT_EQ(scenario.nodes[3].name, "b-2");
  EXPECT_TRUE(scenario.nodes[3].devices.empty());
  EXPECT_EQ(scenario.exclusions.size(), 1U);
}

TEST(Scenario, ReadsRequests) {
  const Scenario scenario = read(
      "node a\n"
      "at 1m submit j gpus=2.5 gpu-memory=10GiB cpus=0.5 ram=4GiB members=8 least=4 user=red "
      "models=H200,A100 not-models=PCIe nodes=a not-nodes=b devices=a/0 labels=pool=x tolerates=t "
      "near=nvlink prefer-together=rack spread=node:2 priority=-3 preemptible=no lasts=2h "
      "expected=unknown\n");
  ASSERT_EQ(scenario.steps.size(), 1U);
  EXPECT_EQ(scenario.steps[0].at, 60);
  EXPECT_EQ(scenario.steps[0].line, 2U);
  const auto& submit = std::get<Submit>(scenario.steps[0].what);
  const model::JobSpec& spec = submit.spec;
  EXPECT_EQ(spec.name, "j");
  EXPECT_EQ(spec.request.share(), Share(2500));
  EXPECT_EQ(spec.request.memory(), gib(10));
  EXPECT_EQ(spec.limits.cpu_milli, 500U);
  EXPECT_EQ(spec.limits.ram, gib(4));
  EXPECT_EQ(spec.members(), 8U);
  EXPECT_EQ(spec.least_members, 4U);
  EXPECT_EQ(spec.request.allowed_models().size(), 2U);
  EXPECT_EQ(spec.devices, std::vector<std::string>{"a/0"});
  EXPECT_EQ(spec.where.node_labels.at("pool"), "x");
  EXPECT_EQ(spec.where.tolerations, std::vector<std::string>{"t"});
  EXPECT_EQ(spec.where.gpus_near, (model::Near{model::Closeness::kNvlink, true}));
  EXPECT_EQ(spec.where.members_near, (model::Near{model::Closeness::kRack, false}));
  EXPECT_EQ(spec.where.spread, (model::Spread{model::Closeness::kNode, 2}));
  EXPECT_EQ(spec.priority, -3);
  EXPECT_FALSE(spec.preemptible);
  EXPECT_EQ(submit.owner, "red");
  EXPECT_EQ(submit.lasts, 7'200);
  EXPECT_EQ(spec.expected, std::nullopt);
}

TEST(Scenario, ReadsQueuesUsersAndHowJobsAreTreated) {
  const Scenario scenario = read(
      "half-life 1h\n"
      "queue research/vision quota=4 quota-memory=100GiB jobs=9 borrow=no most=6 user-most=2 "
      "user-memory=50GiB user-jobs=3 weight=2 highest-priority=10\n"
      "user ada most=2.5 memory=80GiB jobs=4 weight=3\n"
      "node a\n"
      "submit first gpus=1 queue=research tenant=red\n"
      "submit second gpus=1 queue=research/vision user=ada class=latency after=first:ended "
      "retries=3 retry-pause=20m time-limit=2h min-run=5m grace=30 lasts=1h\n"
      "expect queue research/vision holds 0\n"
      "expect queue research waits 1\n"
      "expect user ada holds 0.5\n");
  const jobs::Settings& settings = scenario.settings;
  EXPECT_EQ(settings.half_life, jobs::Seconds(3'600));
  ASSERT_EQ(settings.queues.size(), 1U);
  jobs::QueueSettings queue;
  queue.path = "research/vision";
  queue.quota = {Share(4000), gib(100), 9};
  queue.may_borrow = false;
  queue.most_share = Share(6000);
  queue.per_user = {Share(2000), gib(50), 3};
  queue.weight = 2;
  queue.highest_priority = 10;
  EXPECT_EQ(settings.queues[0], queue);
  ASSERT_EQ(settings.users.size(), 1U);
  EXPECT_EQ(settings.users[0], (jobs::UserSettings{"ada", {Share(2500), gib(80), 4}, 3}));
  EXPECT_EQ(std::get<Submit>(scenario.steps[0].what).owner, "red");
  const model::JobSpec& spec = std::get<Submit>(scenario.steps[1].what).spec;
  EXPECT_EQ(spec.queue, "research/vision");
  EXPECT_EQ(spec.job_class, model::JobClass::kLatency);
  EXPECT_EQ(spec.after,
            (std::vector<model::Dependency>{{model::JobId(1), model::DependencyKind::kEnded}}));
  EXPECT_EQ(spec.retry, (model::RetryPolicy{3, model::Seconds(1'200), model::Seconds(1'200)}));
  EXPECT_EQ(spec.time_limit, model::Seconds(7'200));
  EXPECT_EQ(spec.minimum_run, model::Seconds(300));
  EXPECT_EQ(spec.grace, model::Seconds(30));
  EXPECT_EQ(spec.expected, model::Seconds(3'600));
  EXPECT_EQ(std::get<Expect>(scenario.steps[2].what).what, Expected::kQueueHolds);
  EXPECT_EQ(std::get<Expect>(scenario.steps[3].what).number, 1);
  EXPECT_EQ(std::get<Expect>(scenario.steps[4].what).amount, Share(500));
}

TEST(Scenario, LinesWithoutATimeAreAtTheLastOne) {
  const Scenario scenario = read("node a\nat 5 submit j gpus=1\nsubmit k gpus=1\nat 9\n");
  ASSERT_EQ(scenario.steps.size(), 3U);
  EXPECT_EQ(scenario.steps[1].at, 5);
  EXPECT_EQ(scenario.steps[2].at, 9);
  EXPECT_TRUE(std::holds_alternative<Wait>(scenario.steps[2].what));
}

TEST(Scenario, ReadsEventsAndExpectations) {
  const Scenario scenario = read(
      "node a gpus=4\r\n"
      "submit j gpus=1\n"
      "lose a \"power supply\"\n"
      "cordon a\n"
      "unhealthy a gpu 3 ECC errors\n"
      "expect j waits \"on gpu # 3\"\n"
      "expect j on a gpu 0,1\n"
      "expect held 2.5 on a\n"
      "expect j preempts nobody\n");
  EXPECT_EQ(std::get<LoseNode>(scenario.steps[1].what).reason, "power supply");
  EXPECT_EQ(std::get<Cordon>(scenario.steps[2].what).reason, "by an administrator");
  EXPECT_EQ(std::get<GpuHealth>(scenario.steps[3].what).reason, "ECC errors");
  const auto& waits = std::get<Expect>(scenario.steps[4].what);
  EXPECT_EQ(waits.text, "on gpu # 3");
  EXPECT_EQ(waits.source, "j waits \"on gpu # 3\"");
  EXPECT_EQ(std::get<Expect>(scenario.steps[5].what).gpus, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(std::get<Expect>(scenario.steps[6].what).amount, Share(2500));
  EXPECT_TRUE(std::get<Expect>(scenario.steps[7].what).names.empty());
}

TEST(Scenario, RefusesWithTheLineAndWhatToDo) {
  EXPECT_EQ(refused_line("sumbit k gpus=1"),
            "no line begins with \"sumbit\"; did you mean submit?");
  EXPECT_EQ(refused_line("submit k gpu=1"), "\"gpu\" is no option here; did you mean gpus?");
  EXPECT_EQ(refused_line("submit j gpus=1"), "a job j was submitted already; give it another name");
  EXPECT_EQ(refused_line("finish k"), "no job \"k\" was submitted before; submit it first");
  EXPECT_EQ(refused_line("lose aa"), "there is no node \"aa\"; add a line that begins with node");
  EXPECT_EQ(refused_line("at x wait"),
            "\"x\" is no time; write it like 90, 90s, 15m, 2h or 1d, up to 3660d");
  EXPECT_EQ(
      refused_line("at 99999999999999999999 wait"),
      "\"99999999999999999999\" is no time; write it like 90, 90s, 15m, 2h or 1d, up to 3660d");
  EXPECT_EQ(refused_line("submit k gpus=-1").substr(0, 17), "cannot read \"-1\" ");
  EXPECT_EQ(refused_line("submit k gpus=1 gpus=2"), "\"gpus\" is given twice; give it once");
  EXPECT_EQ(refused_line("submit k cpus=2"),
            "the job asks for no GPU; write gpus=1, gpus=0.3 or gpu-memory=10GiB");
  EXPECT_EQ(refused_line("submit k gpus=1 queue=defalt"),
            "there is no queue \"defalt\"; did you mean default?");
  EXPECT_EQ(refused_line("submit k gpus=1 queue=research"),
            "there is no queue \"research\"; add a line that begins with queue");
  EXPECT_EQ(refused_line("submit k gpus=1 after=x"),
            "no job \"x\" was submitted before; submit it first");
  EXPECT_EQ(refused_line("submit k gpus=1 after=j:done"),
            "\"done\" is no way to wait for a job; write succeeded or failed or ended");
  EXPECT_EQ(refused_line("submit k gpus=1 user=a tenant=a"),
            "user and tenant mean the same; leave one out");
  EXPECT_EQ(refused_line("submit k gpus=1 priority=1001"),
            "\"1001\" is no whole number from -1000 to 1000");
  EXPECT_EQ(refused_line("submit k gpus=1 spread=numa"),
            "spread takes a node, rack or zone and at least 1 member in each");
  EXPECT_EQ(refused_line("queue research"), "queue comes after the first event; put it before");
  EXPECT_EQ(refused_line("expect queue default hlods 3"),
            "\"hlods\" cannot be expected of a queue; it can be holds, borrows or waits");
  EXPECT_EQ(refused_line("expect user ada has 3"), "write: expect user \"ada\" holds 2");
  EXPECT_EQ(refused_line("submit k gpus=17").substr(0, 25), "one member asks for 17 GP");
  EXPECT_EQ(refused_line("submit k gpus=1 members=0"),
            "\"0\" is no whole number from 1 to 4294967295");
  EXPECT_EQ(refused_line("expect j waits \"never"),
            "a quote begins and does not end; close it with \"");
  EXPECT_EQ(refused_line("expect j rnus"),
            "\"rnus\" cannot be expected of a job; did you mean runs?");
  EXPECT_EQ(refused_line("expect j near rack"),
            "near does not go with \"rack\"; write numa, pcie or nvlink");
  EXPECT_EQ(refused_line("unhealthy a gpu 4"), "\"4\" is no whole number from 0 to 3");
  EXPECT_EQ(refused_line("finish j now"), "\"now\" is too much here; leave it out");
  EXPECT_EQ(refused_line("node b"), "a node comes after the first event; put all nodes before");
  EXPECT_EQ(refused_line("submit k gpus=1 near=nvlink prefer-near=numa"),
            "a nearness is both required and preferred; leave one out");
  EXPECT_EQ(refused_line(std::string_view("a\0b", 3)).substr(0, 31),
            "the line has bytes that are no ");
}

TEST(Scenario, RefusesNodesThatCannotBe) {
  EXPECT_EQ(refused("node a\nnode a\n"),
            "test.scenario:2: there is a node a already; give it another name");
  EXPECT_EQ(refused("nodes a gpus=1\n"),
            "test.scenario:1: it is not said how many nodes there are; add count=4");
  EXPECT_EQ(refused("node a gpus=4 nvlink=0-3/3\n"),
            "test.scenario:1: GPU 3 is in two groups; put it into one");
  EXPECT_EQ(refused("node a gpus=4 nvlink=0-4\n"),
            "test.scenario:1: \"4\" is no whole number from 0 to 3");
  EXPECT_EQ(refused("node a labels=pool\n"),
            "test.scenario:1: \"pool\" is no label; write it like labels=pool=train");
  EXPECT_EQ(refused("policy fdg\n"),
            "test.scenario:1: there is no policy \"fdg\"; did you mean fgd?");
  EXPECT_EQ(refused("queue a quota=4 most=2\n"),
            "test.scenario:1: queues.a.most_share: 2 is less than its quota of 4");
  EXPECT_EQ(refused("queue a\nqueue a\n"), "test.scenario:2: queues.a: it is there twice");
  EXPECT_EQ(
      refused("at 9 wait\nat 8 wait\n"),
      "test.scenario:2: the time \"8\" lies before 9, where the line before is; put the lines "
      "in the order of time");
  EXPECT_EQ(refused("# nothing\n"),
            "test.scenario:2: the scenario has no nodes; add a line like: node a gpus=8");
}

TEST(Scenario, AFileThatIsNotThereOrNotText) {
  const auto missing = read_scenario("/nonexistent/x.scenario");
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("/nonexistent/x.scenario"), std::string::npos);
  const std::string path = ::testing::TempDir() + "binary.scenario";
  std::ofstream(path, std::ios::binary) << std::string("node a\n\0\1\2", 10);
  const auto binary = read_scenario(path);
  ASSERT_FALSE(binary.has_value());
  EXPECT_TRUE(binary.error().message.starts_with(path)) << binary.error().message;
}

}  // namespace
}  // namespace divvy::sim
