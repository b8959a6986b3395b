#include "simgpu/config.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "simgpu/topology.h"

namespace divvy::simgpu {
namespace {

std::string yaml_error(const std::string& text) {
  std::string error;
  EXPECT_FALSE(parse_yaml(text, "sim.yaml", &error)) << text;
  return error;
}

SimConfig yaml(const std::string& text) {
  std::string error;
  const auto config = parse_yaml(text, "sim.yaml", &error);
  EXPECT_TRUE(config) << error;
  return config.value_or(SimConfig{});
}

std::string list_error(const std::string& text) {
  std::string error;
  EXPECT_FALSE(parse_gpu_list(text, &error)) << text;
  return error;
}

Environment environment(const std::map<std::string, std::string>& values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

TEST(Catalogue, KnowsWhatEachModelIs) {
  const auto h200 = find_model("H200");
  ASSERT_TRUE(h200);
  EXPECT_STREQ(h200->name, "NVIDIA H200");
  EXPECT_EQ(h200->memory_bytes, uint64_t{143771} << 20U);
  EXPECT_EQ(h200->sm_count, 132U);
  EXPECT_EQ(h200->compute_major, 9U);
  EXPECT_EQ(h200->architecture, 9U);
  EXPECT_EQ(h200->power_limit_mw, 700'000U);
  EXPECT_EQ(h200->link_count, 18U);
  for (const std::string& name : model_names()) {
    const auto model = find_model(name);
    ASSERT_TRUE(model) << name;
    EXPECT_GT(model->memory_bytes, model->reserved_bytes + model->context_bytes) << name;
    EXPECT_GT(model->power_limit_mw, model->idle_power_mw) << name;
    EXPECT_GT(model->shutdown_c, model->slowdown_c) << name;
    EXPECT_LE(model->link_count, static_cast<uint32_t>(kMaxLinks)) << name;
    EXPECT_EQ(model->pci_device_id & 0xFFFFU, 0x10DEU) << name;
  }
}

TEST(Catalogue, TakesShortAndLongNamesInAnyCase) {
  EXPECT_STREQ(find_model("h100")->name, "NVIDIA H100 80GB HBM3");
  EXPECT_STREQ(find_model("a100")->name, "NVIDIA A100-SXM4-80GB");
  EXPECT_STREQ(find_model("NVIDIA L4")->name, "NVIDIA L4");
  EXPECT_FALSE(find_model("H300"));
}

TEST(GpuList, CountsModels) {
  std::string error;
  const auto config = parse_gpu_list("2xH100-80GB, 1xL4,T4", &error);
  ASSERT_TRUE(config) << error;
  ASSERT_EQ(config->gpus.size(), 4U);
  EXPECT_STREQ(config->gpus[1].name, "NVIDIA H100 80GB HBM3");
  EXPECT_STREQ(config->gpus[2].name, "NVIDIA L4");
  EXPECT_STREQ(config->gpus[3].name, "Tesla T4");
  EXPECT_EQ(parse_gpu_list("4", &error)->gpus.size(), 4U);
  EXPECT_STREQ(parse_gpu_list("1", &error)->gpus[0].name, "NVIDIA H200");
  EXPECT_TRUE(parse_gpu_list("0", &error)->gpus.empty());
}

TEST(GpuList, SaysWhereItCannotBeRead) {
  EXPECT_NE(list_error("4xH20").find("did you mean H200?"), std::string::npos);
  EXPECT_NE(list_error("4xVoodoo").find("the known models are H200, "), std::string::npos);
  EXPECT_NE(list_error("4,").find("is missing"), std::string::npos);
  EXPECT_NE(list_error("").find("is missing"), std::string::npos);
  EXPECT_NE(list_error("4 H200").find("an 'x' belongs"), std::string::npos);
  EXPECT_NE(list_error("33").find("at most 32"), std::string::npos);
  EXPECT_NE(list_error("20xL4,20xT4").find("at most 32"), std::string::npos);
  EXPECT_NE(list_error("99999999999").find("at most 32"), std::string::npos);
}

TEST(Yaml, ReadsEverything) {
  const SimConfig config = yaml(R"(
driver: "575.51.03"
cuda: "12.9"
clock: manual
slice: 1ms
kernel: 5us
launch: 100ns
gpus:
  - model: H200
    count: 2
    memory: 100GiB
    numa: [0, 3]
    uuid: [GPU-00000000-0000-0000-0000-000000000001, GPU-00000000-0000-0000-0000-000000000002]
    pci: ["00000000:0a:00.0", "00000000:0b:00.0"]
    power: 500
    sms: 100
  - model: L4
)");
  EXPECT_EQ(config.driver_version, "575.51.03");
  EXPECT_EQ(config.cuda_version, 12090U);
  EXPECT_EQ(config.clock, ClockMode::kManual);
  EXPECT_EQ(config.slice_ns, 1'000'000U);
  EXPECT_EQ(config.default_kernel_ns, 5'000U);
  EXPECT_EQ(config.launch_ns, 100U);
  ASSERT_EQ(config.gpus.size(), 3U);
  EXPECT_EQ(config.gpus[1].memory_bytes, uint64_t{100} << 30U);
  EXPECT_EQ(config.gpus[1].numa_node, 3);
  EXPECT_STREQ(config.gpus[1].uuid, "GPU-00000000-0000-0000-0000-000000000002");
  EXPECT_STREQ(config.gpus[1].pci, "00000000:0B:00.0");
  EXPECT_EQ(config.gpus[1].power_limit_mw, 500'000U);
  EXPECT_EQ(config.gpus[1].sm_count, 100U);
  EXPECT_STREQ(config.gpus[2].name, "NVIDIA L4");
}

TEST(Yaml, LeavesRoomForProgramsOnASmallGpu) {
  const SimConfig config = yaml("gpus: [{model: H200, memory: 64MiB}]");
  EXPECT_EQ(config.gpus[0].reserved_bytes, 4U << 20U);
  EXPECT_EQ(config.gpus[0].context_bytes, 8U << 20U);
}

TEST(Yaml, NamesThePlaceOfAMistake) {
  EXPECT_EQ(yaml_error("gpus:\n  - modle: H200\n"),
            "sim.yaml:2:5: unknown key 'modle'; did you mean 'model'?");
  EXPECT_EQ(yaml_error("gpus:\n  - model: H20\n"),
            "sim.yaml:2:12: unknown model 'H20'; did you mean H200?");
  EXPECT_EQ(yaml_error("gpus:\n  - model: H200\n    count: many\n"),
            "sim.yaml:3:12: 'count' must be a whole number from 1 to 32, not 'many'");
  EXPECT_EQ(yaml_error("gpus: 4\n"),
            "sim.yaml:1:7: 'gpus' must be a list, each entry beginning with '- '");
  EXPECT_EQ(yaml_error("slice: soon\ngpus: []\n"),
            "sim.yaml:1:8: 'slice': 'soon' is no time: it does not begin with a number (right "
            "would be 2ms)");
}

TEST(Yaml, RefusesWhatCannotBe) {
  EXPECT_NE(yaml_error("").find("is empty"), std::string::npos);
  EXPECT_NE(yaml_error("driver: \"580\"\n").find("'gpus' is missing"), std::string::npos);
  EXPECT_NE(yaml_error("- 1\n").find("must be a map"), std::string::npos);
  EXPECT_NE(yaml_error("gpus: [\n").find("this is not YAML"), std::string::npos);
  EXPECT_NE(yaml_error("gpus: []\ngpus: []\n").find("there twice"), std::string::npos);
  EXPECT_NE(yaml_error("clock: fast\ngpus: []\n").find("real or manual"), std::string::npos);
  EXPECT_NE(yaml_error("gpus: [{model: H200, memory: 1KiB}]").find("from 16 MiB"),
            std::string::npos);
  EXPECT_NE(yaml_error("gpus: [{model: H200, count: 2, numa: [0]}]").find("lists 1 values for 2"),
            std::string::npos);
  EXPECT_NE(yaml_error("gpus: [{model: H200, count: 33}]").find("from 1 to 32"), std::string::npos);
  EXPECT_NE(yaml_error("gpus: [{model: H200, uuid: me}]").find("40 characters"), std::string::npos);
  EXPECT_NE(yaml_error("gpus: [{model: H200, count: 2, pci: \"00000000:0a:00.0\"}]")
                .find("would both be 00000000:0A:00.0"),
            std::string::npos);
}

TEST(Yaml, LinksWhatItIsTold) {
  const SimConfig pairs = yaml("gpus: [{model: H200, count: 3}]\nnvlink: [[0, 1, 4], [1, 2]]\n");
  EXPECT_EQ(pairs.gpus[0].link_peer[3], 1);
  EXPECT_EQ(pairs.gpus[0].link_peer[4], -1);
  EXPECT_EQ(pairs.gpus[1].link_peer[4], 2);
  EXPECT_EQ(pairs.gpus[2].link_peer[0], 1);
  EXPECT_FALSE(link_active(pairs.gpus[0], 4));

  const SimConfig none = yaml("gpus: [{model: H200, count: 2}]\nnvlink: none\n");
  EXPECT_FALSE(link_active(none.gpus[0], 0));

  EXPECT_NE(yaml_error("gpus: [{model: H200}]\nnvlink: [[0, 1]]").find("there is no GPU 1"),
            std::string::npos);
  EXPECT_NE(yaml_error("gpus: [{model: L4, count: 2}]\nnvlink: [[0, 1]]").find("only 0 NVLinks"),
            std::string::npos);
  EXPECT_NE(yaml_error("gpus: [{model: H200}]\nnvlink: [[0, 0]]").find("to itself"),
            std::string::npos);
  EXPECT_NE(yaml_error("gpus: [{model: H200}]\nnvlink: some").find("all, none or a list"),
            std::string::npos);
}

TEST(Environment, SaysWhetherAndWhatToSimulate) {
  EXPECT_FALSE(simulation_requested(environment({})));
  EXPECT_TRUE(simulation_requested(environment({{"DIVVY_SIM_GPUS", "2"}})));
  EXPECT_TRUE(simulation_requested(environment({{"DIVVY_SIM_STATE", "/dev/shm/x"}})));
  std::string error;
  EXPECT_EQ(config_from(environment({{"DIVVY_SIM_GPUS", "2xL4"}}), &error)->gpus.size(), 2U);
  EXPECT_EQ(config_from(environment({}), &error)->gpus.size(), 1U);
  EXPECT_FALSE(config_from(environment({{"DIVVY_SIM_CONFIG", "/nowhere.yaml"}}), &error));
  EXPECT_EQ(error, "the file /nowhere.yaml (DIVVY_SIM_CONFIG) cannot be read");
  EXPECT_FALSE(config_from(environment({{"DIVVY_SIM_GPUS", "x"}}), &error));
  EXPECT_EQ(error.find("DIVVY_SIM_GPUS: "), 0U);
}

TEST(Environment, PlacesTheStatePerUserUnlessTold) {
  EXPECT_EQ(state_path(environment({{"DIVVY_SIM_STATE", "/tmp/mine"}})), "/tmp/mine");
  EXPECT_EQ(state_path(environment({})).find("/dev/shm/divvy-simgpu-"), 0U);
}

}  // namespace
}  // namespace divvy::simgpu
