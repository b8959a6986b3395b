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
  EXPECT_EQ(scenario.policy, "fgd");
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
      "at 1m submit j gpus=2.5 gpu-memory=10GiB cpus=0.5 ram=4GiB members=8 least=4 tenant=red "
      "models=H200,A100 not-models=PCIe nodes=a not-nodes=b devices=a/0 labels=pool=x tolerates=t "
      "near=nvlink prefer-together=rack spread=node:2 priority=-3 preemptible=no lasts=2h "
      "expected=unknown\n");
  ASSERT_EQ(scenario.steps.size(), 1U);
  EXPECT_EQ(scenario.steps[0].at, 60);
  EXPECT_EQ(scenario.steps[0].line, 2U);
  const auto& submit = std::get<Submit>(scenario.steps[0].what);
  const place::Request& request = submit.request;
  EXPECT_EQ(request.name, "j");
  EXPECT_EQ(request.member.whole_gpus, 2U);
  EXPECT_EQ(request.member.part, Share(500));
  EXPECT_EQ(request.member.memory, gib(10));
  EXPECT_EQ(request.member.cpu_milli, 500U);
  EXPECT_EQ(request.members, 8U);
  EXPECT_EQ(request.least_members, 4U);
  EXPECT_EQ(request.allowed_models.size(), 2U);
  EXPECT_EQ(request.devices, std::vector<std::string>{"a/0"});
  EXPECT_EQ(request.gpus, (place::Near{place::Closeness::kNvlink, true}));
  EXPECT_EQ(request.members_near, (place::Near{place::Closeness::kRack, false}));
  EXPECT_EQ(request.spread, (place::Spread{place::Closeness::kNode, 2}));
  EXPECT_EQ(request.priority, -3);
  EXPECT_FALSE(request.preemptible);
  EXPECT_EQ(submit.lasts, 7'200);
  EXPECT_EQ(submit.expected, std::nullopt);
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
  EXPECT_EQ(refused_line("at x wait"), "\"x\" is no time; write it like 90, 90s, 15m, 2h or 1d");
  EXPECT_EQ(refused_line("at 99999999999999999999 wait"),
            "\"99999999999999999999\" is no time; write it like 90, 90s, 15m, 2h or 1d");
  EXPECT_EQ(refused_line("submit k gpus=-1").substr(0, 17), "cannot read \"-1\" ");
  EXPECT_EQ(refused_line("submit k gpus=1 gpus=2"), "\"gpus\" is given twice; give it once");
  EXPECT_EQ(refused_line("submit k"), "the request asks for nothing; name GPUs, CPUs or RAM");
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
