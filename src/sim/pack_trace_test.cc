#include "sim/pack_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace divvy::sim {
namespace {

constexpr std::string_view kNodeColumns = "sn,cpu_milli,memory_mib,gpu,model\n";
constexpr std::string_view kPodColumns = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";

Result<std::vector<place::NodeSpec>> nodes(const std::string& rows) {
  DIVVY_TRY(table, CsvTable::parse(std::string(kNodeColumns) + rows, "nodes.csv"));
  return read_nodes(table);
}

Result<std::vector<PackPod>> pods(const std::string& rows) {
  DIVVY_TRY(table, CsvTable::parse(std::string(kPodColumns) + rows, "pods.csv"));
  return read_pods(table);
}

template <typename T>
std::string refusal(const Result<T>& result) {
  return result ? "accepted" : result.error().message;
}

TEST(PackNodes, AreReadWithTheirGpus) {
  const auto read = nodes("node-a,64000,262144,2,P100\nnode-b,96000,393216,8,V100M32\n");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  const place::NodeSpec& node = read->front();
  EXPECT_EQ(node.name, "node-a");
  EXPECT_EQ(node.cpu_milli, 64'000U);
  EXPECT_EQ(node.ram, gib(256));
  ASSERT_EQ(node.devices.size(), 2U);
  EXPECT_EQ(node.devices[1].model, "P100");
  EXPECT_EQ(node.max_members, 1001U);
  EXPECT_EQ(read->back().devices.size(), 8U);
}

TEST(PackNodes, WithoutGpuAreLeftOut) {
  const auto read = nodes("cpu-only,64000,1024,0,\nnode-b,96000,1024,1,T4\n");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 1U);
  EXPECT_EQ(read->front().name, "node-b");
}

TEST(PackNodes, MayCallTheirNameColumnName) {
  const auto table =
      CsvTable::parse("model,gpu,name,memory_mib,cpu_milli\nT4,1,a,1024,1000\n", "nodes.csv");
  const auto read = read_nodes(*table);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->front().name, "a");
}

TEST(PackNodes, RefuseWhatIsWrongByFileAndLine) {
  EXPECT_EQ(refusal(nodes("a,1,1,1,T4\na,1,1,1,T4\n")),
            "nodes.csv:3: there is a node \"a\" already; give every node a name of its own");
  EXPECT_EQ(refusal(nodes(",1,1,1,T4\n")), "nodes.csv:2: the node has no name; give it one");
  EXPECT_EQ(refusal(nodes("a,1,1,2,\n")),
            "nodes.csv:2: the node has 2 GPUs and no model; write one");
  for (const char* row : {"a,-1,1,1,T4", "a,1,x,1,T4", "a,1,1,17,T4", "a,1,1,1.5,T4",
                          "a,99999999999999999999,1,1,T4", "a,1,1000000001,1,T4"}) {
    const std::string message = refusal(nodes(std::string(row) + "\n"));
    EXPECT_TRUE(message.starts_with("nodes.csv:2: ")) << row << ": " << message;
  }
  EXPECT_EQ(refusal(nodes("")), "nodes.csv: no node has a GPU; there is nothing to place on");
  const auto table = CsvTable::parse("sn,cpu_milli,memory_mib,model\na,1,1,T4\n", "nodes.csv");
  EXPECT_NE(refusal(read_nodes(*table)).find("gpu"), std::string::npos);
}

TEST(PackPods, AreReadWithWhatTheyAsk) {
  const auto read = pods(
      "p-0,12000,16384,1,460,\n"
      "p-1,1000,1024,8,1000,V100M16|V100M32\n"
      "p-2,4000,2048,0,0,\n");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 3U);
  EXPECT_EQ((*read)[0].share(), 460U);
  EXPECT_TRUE((*read)[0].models.empty());
  EXPECT_EQ((*read)[1].share(), 8000U);
  EXPECT_EQ((*read)[1].models, (std::vector<std::string>{"V100M16", "V100M32"}));
  EXPECT_EQ((*read)[2].share(), 0U);
  EXPECT_EQ((*read)[2].ram, gib(2));
}

TEST(PackPods, NeedNoColumnOfModels) {
  const auto table =
      CsvTable::parse("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1000\n", "pods.csv");
  EXPECT_TRUE(read_pods(*table));
}

TEST(PackPods, RefuseWhatIsWrongByFileAndLine) {
  EXPECT_EQ(refusal(pods("p,1,1,1,0,\n")),
            "pods.csv:2: the pod asks for a GPU and for 0 of it; write 1 to 1000 as gpu_milli");
  EXPECT_EQ(refusal(pods("p,1,1,2,500,\n")),
            "pods.csv:2: the pod asks for 500 of each of 2 GPUs; of several GPUs write 1000");
  EXPECT_EQ(refusal(pods("p,1,1,1,1,\np,1,1,1,1,\n")),
            "pods.csv:3: there is a pod \"p\" already; give every pod a name of its own");
  for (const char* row : {"p,-1,1,1,1000,", "p,1,1,1,1001,", "p,1,1,99,1000,", "p,1,1,,1000,"}) {
    const std::string message = refusal(pods(std::string(row) + "\n"));
    EXPECT_TRUE(message.starts_with("pods.csv:2: ")) << row << ": " << message;
  }
  EXPECT_EQ(refusal(pods("")), "pods.csv: there is no pod; there is nothing to place");
}

class Sequences : public testing::Test {
 protected:
  Result<PackSequence> parse(std::string_view text, const TextLimits& limits = {}) const {
    return parse_sequence(text, "order.txt", index_, limits);
  }

  std::vector<PackPod> pods_ =
      pods("openb-pod-0000,1,1,1,1,\nopenb-pod-0017,1,1,1,1,\nlast,1,1,1,1,\n").value();
  PodIndex index_{pods_};
};

TEST_F(Sequences, HoldNumbersAndNamesOfPods) {
  const auto read = parse("17\n0\r\n\n  0017 \nlast\nopenb-pod-0000");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "order.txt");
  EXPECT_EQ(read->arrivals, (std::vector<std::uint32_t>{1, 0, 1, 2, 0}));
}

TEST_F(Sequences, RefuseUnknownPodsByFileAndLine) {
  EXPECT_EQ(refusal(parse("17\n18\n")),
            "order.txt:2: there is no pod \"18\"; write the name of a pod, or the number that it "
            "ends with");
  EXPECT_TRUE(refusal(parse("-1\n")).starts_with("order.txt:1: there is no pod \"-1\""));
  EXPECT_TRUE(refusal(parse("99999999999999999999999\n")).starts_with("order.txt:1: "));
  EXPECT_EQ(refusal(parse("\n\n")), "order.txt: no pod arrives; write one on each line");
}

TEST_F(Sequences, RefuseNumbersThatMeanSeveralPods) {
  const std::vector<PackPod> twins = pods("a-1,1,1,1,1,\nb-01,1,1,1,1,\n").value();
  const PodIndex index(twins);
  EXPECT_EQ(refusal(parse_sequence("1\n", "order.txt", index)),
            "order.txt:1: several pods end with the number \"1\"; write the name of the pod");
  EXPECT_TRUE(parse_sequence("b-01\n", "order.txt", index));
}

TEST_F(Sequences, RefuseEndlessLines) {
  TextLimits limits;
  limits.line_bytes = 100;
  EXPECT_TRUE(refusal(parse("0\n" + std::string(101, '0'), limits))
                  .starts_with("order.txt:2: the line is longer than 100 bytes"));
}

TEST_F(Sequences, AreReadFromPlainAndCompressedFiles) {
  const TemporaryFolder folder;
  const std::string plain = (folder / "order.txt").string();
  const std::string packed = (folder / "order.txt.gz").string();
  const std::string binary = (folder / "binary").string();
  std::ofstream(plain) << "17\n0\n";
  gzFile file = gzopen(packed.c_str(), "wb");
  gzputs(file, "17\n0\n");
  gzclose(file);
  std::ofstream(binary, std::ios::binary) << std::string("17\n\0\x01\x02", 6);

  EXPECT_EQ(read_sequence(plain, index_)->arrivals, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(read_sequence(packed, index_)->arrivals, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_NE(refusal(read_sequence(binary, index_)).find(binary), std::string::npos);
  TextLimits small;
  small.file_bytes = 3;
  EXPECT_NE(refusal(read_sequence(plain, index_, small)).find(plain), std::string::npos);
  EXPECT_NE(refusal(read_sequence((folder / "none").string(), index_)).find("none"),
            std::string::npos);
}

}  // namespace
}  // namespace divvy::sim
