#include "cli/run_command.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/stats.h"
#include "cli/tenant_list.h"
#include "cli/testing.h"
#include "cli/top_view.h"

namespace divvy::cli {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& entry) {
  return std::ranges::find(list, entry) != list.end();
}

bool has(const std::string& text, std::string_view piece) {
  return text.find(piece) != std::string::npos;
}

constexpr const char* kStats = R"({
  "hostname": "box", "simulated": false, "waiting": 1,
  "gpus": [{"index": 0, "model": "NVIDIA H200", "memoryBytes": 107374182400,
            "freeShareThousandths": 100, "unusable": null}],
  "tenants": [
    {"id": 1, "name": "train", "user": "alice", "class": "batch", "state": "running",
     "command": "python", "slices": [{"gpu": {"index": 0}, "shareThousandths": 300,
     "capped": true, "memoryUsedBytes": 53687091200, "memoryLimitBytes": 64424509440,
     "memoryPeakBytes": 53687091200, "usedShareThousandths": 250, "waitedShareThousandths": 700}]},
    {"id": 2, "name": "serve", "user": "bob", "class": "latency", "state": "waiting",
     "command": "./server", "slices": [{"gpu": {"index": 0}, "shareThousandths": 600,
     "capped": false, "memoryUsedBytes": 10737418240, "memoryLimitBytes": 21474836480,
     "memoryPeakBytes": 10737418240, "usedShareThousandths": 500, "waitedShareThousandths": 0}]}
  ]})";

TEST(RunCommand, PutsTheSliceIntoTheEnvironment) {
  const std::vector<std::string> present = {"HOME=/h", "CUDA_VISIBLE_DEVICES=3",
                                            "LD_PRELOAD=libx.so:/d/libdivvy.so"};
  const auto result =
      command_environment(present, R"({"CUDA_VISIBLE_DEVICES":"GPU-1","DIVVY_SOCKET":"/s"})",
                          {.shim = "/d/libdivvy.so", .simgpu = "/d/simgpu"})
          .value();
  EXPECT_TRUE(contains(result, "HOME=/h"));
  EXPECT_TRUE(contains(result, "CUDA_VISIBLE_DEVICES=GPU-1"));
  EXPECT_TRUE(contains(result, "DIVVY_SOCKET=/s"));
  EXPECT_TRUE(contains(result, "LD_PRELOAD=/d/libdivvy.so:libx.so"));
  EXPECT_TRUE(contains(result, "LD_LIBRARY_PATH=/d/simgpu"));
  EXPECT_EQ(result.size(), 5U);
}

TEST(RunCommand, LeavesTheLibraryPathAloneOnRealGpus) {
  const auto result = command_environment({}, "{}", {.shim = "/d/libdivvy.so", .simgpu = {}});
  EXPECT_EQ(result.value(), std::vector<std::string>{"LD_PRELOAD=/d/libdivvy.so"});
}

TEST(RunCommand, SetsOnlyTheVariablesOfASlice) {
  const auto accepts = [](const std::string& variables) {
    return command_environment({}, variables, {.shim = "/d/libdivvy.so", .simgpu = {}}).has_value();
  };
  EXPECT_TRUE(accepts(R"({"DIVVY_SOCKET":"/run/divvy/t/3.sock",
                          "CUDA_VISIBLE_DEVICES":"GPU-3f-1,MIG-0/1",
                          "CUDA_MPS_PIPE_DIRECTORY":"/run/divvy/mps/0",
                          "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE":"30",
                          "DIVVY_SIM_STATE":"/dev/shm/divvy-simgpu-0"})"));
  for (const char* variables :
       {R"({"LD_PRELOAD":"/tmp/evil.so"})", R"({"LD_LIBRARY_PATH":"/tmp"})", R"({"PATH":"/tmp"})",
        R"({"LD_AUDIT":"/tmp/evil.so"})", R"({"DIVVY_SOCKET":"relative"})",
        R"({"DIVVY_SOCKET":"/a\nb"})", R"({"DIVVY_SOCKET":7})", R"({"DIVVY_SIM_STATE":"relative"})",
        R"({"DIVVY_SIM_LIBRARIES":"/tmp"})", R"({"CUDA_VISIBLE_DEVICES":"GPU-1 x=y"})",
        R"({"CUDA_MPS_PIPE_DIRECTORY":""})", R"({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE":"30 "})",
        R"({"DIVVY_SOCKET=/x\u0000":"/y"})"}) {
    EXPECT_FALSE(accepts(variables)) << variables;
  }
}

TEST(RunCommand, NamesWhoHoldsWhat) {
  const std::string text = holders_text(
      R"({"gpus":[{"index":0,"reason":"has 0.2 GPU free","holders":[{"tenant":"train","user":"al",
          "shareThousandths":800,"memoryLimitBytes":1073741824,"command":"python"}]}]})");
  EXPECT_EQ(text,
            "  GPU 0 has 0.2 GPU free\n"
            "    train of al holds 0.8 GPU, 1.0 GiB: python\n");
  EXPECT_EQ(holders_text("nonsense"), "");
  EXPECT_EQ(holders_text(R"({"gpus":[{"index":0,"reason":"\u001b[2J"}]})").find('\x1b'),
            std::string::npos);
}

TEST(TenantTable, SaysThatAnAnswerWasNotUnderstood) {
  EXPECT_FALSE(tenant_table("{}", plain_style(), false).has_value());
  EXPECT_FALSE(tenant_table(R"({"items":[{}],"waiting":0})", plain_style(), false).has_value());
  EXPECT_EQ(tenant_table(R"({"items":[],"waiting":0})", plain_style(), false).value(),
            "nobody holds a slice\n");
}

TEST(TopView, StacksTenantsInABar) {
  const auto stats = parse_stats(kStats);
  ASSERT_TRUE(stats.has_value()) << stats.error().message;
  History history;
  history.add(*stats);
  Style style = plain_style();
  style.columns = 120;
  const std::string text = to_text(top_lines(*stats, history, {}, style), style);
  EXPECT_TRUE(has(text, "[aaaaaaaaaabbbbbbbbbbbbbbbbbbbb..........]  75.0%")) << text;
  EXPECT_TRUE(has(text, "1 waiting for a place")) << text;
  EXPECT_TRUE(has(text, "0.3 cap")) << text;
  // The one that uses most comes first.
  EXPECT_LT(text.find("serve"), text.find("train")) << text;
}

TEST(TopView, SortsAndFilters) {
  const auto stats = parse_stats(kStats).value();
  const Style style = plain_style();
  View view;
  view.sort = SortKey::kMemory;
  const std::string sorted = to_text(top_lines(stats, {}, view, style), style);
  EXPECT_LT(sorted.find("train"), sorted.find("serve"));
  view.filter = "BOB";
  const std::string filtered = to_text(top_lines(stats, {}, view, style), style);
  EXPECT_FALSE(has(filtered, "train"));
  EXPECT_TRUE(has(filtered, "serve"));
  EXPECT_EQ(next(SortKey::kId), SortKey::kUsed);
}

TEST(TopView, RefusesAnAnswerThatIsNoStats) {
  for (const char* text : {"", "{}", "[]", R"({"hostname":1})"}) {
    EXPECT_FALSE(parse_stats(text).has_value()) << text;
  }
}

TEST(History, KeepsTheLastMinute) {
  const auto stats = parse_stats(kStats).value();
  History history;
  for (int i = 0; i < 100; ++i) history.add(stats);
  EXPECT_EQ(history.of(0).size(), History::kLooks);
  EXPECT_EQ(history.of(0).front(), 750U);
  EXPECT_TRUE(history.of(9).empty());
}

}  // namespace
}  // namespace divvy::cli
