#include "cli/gpu_table.h"

#include <gtest/gtest.h>

#include "cli/testing.h"

namespace divvy::cli {
namespace {

using model::HealthState;

std::string above_summary(const std::string& text) { return text.substr(0, text.find("\n\n") + 1); }

TEST(GpuTable, ShowsOneLinePerGpu) {
  auto parts = test_parts(2);
  parts.gpus[1].memory_used = gib(126);
  parts.gpus[1].utilization_percent = 100;
  parts.simulated = true;
  EXPECT_EQ(gpu_table(test_node(parts), test_style(), false),
            R"(GPU  MODEL        MEMORY                        UTIL   TEMP        POWER  HEALTH
0    NVIDIA H200  ▇▁▁▁▁▁▁▁   12.3 / 140.4 GiB   37 %  41 °C  212 / 700 W  healthy
1    NVIDIA H200  ▇▇▇▇▇▇▇▁  126.0 / 140.4 GiB  100 %  41 °C  212 / 700 W  healthy

2 GPUs (simulated), driver 580.159.04, CUDA 13.0 · 141.3 of 280.8 GiB free
)");
}

TEST(GpuTable, IsPlainAsciiWhereNothingElseIsKnownToWork) {
  EXPECT_EQ(gpu_table(test_node(test_parts(1)), plain_style(), false),
            R"(GPU  MODEL                  MEMORY  UTIL  TEMP        POWER  HEALTH
0    NVIDIA H200  12.3 / 140.4 GiB  37 %  41 C  212 / 700 W  healthy

1 GPU, driver 580.159.04, CUDA 13.0 | 127.5 of 140.4 GiB free
)");
}

TEST(GpuTable, DrawsBarsInAsciiOnATerminalWithoutUtf8) {
  Style style = test_style();
  style.unicode = false;
  EXPECT_NE(gpu_table(test_node(test_parts(1)), style, false).find("  #.......  "),
            std::string::npos);
}

TEST(GpuTable, ShowsEverythingInTheWideForm) {
  auto parts = test_parts(2);
  ASSERT_TRUE(parts.topology.set_link(0, 1, {model::LinkKind::kPix, 0}));
  parts.gpus[1].numa_node.reset();
  EXPECT_EQ(gpu_table(test_node(parts), plain_style(), true),
            "GPU  MODEL                  MEMORY  UTIL  TEMP        POWER  HEALTH   "
            "UUID                                      PCI               NUMA  NVLINK  DRIVER\n"
            "0    NVIDIA H200  12.3 / 140.4 GiB  37 %  41 C  212 / 700 W  healthy  "
            "GPU-00000000-0000-4000-8000-000000000000  00000000:18:00.0  0     none    580.159.04\n"
            "1    NVIDIA H200  12.3 / 140.4 GiB  37 %  41 C  212 / 700 W  healthy  "
            "GPU-00000000-0000-4000-8000-000000000001  00000000:19:00.0  -     none    580.159.04\n"
            "\n2 GPUs, driver 580.159.04, CUDA 13.0 | 255.0 of 280.8 GiB free\n");
}

TEST(GpuTable, TextFromTheDriverCannotControlTheTerminal) {
  auto parts = test_parts(1);
  parts.gpus[0].name = "evil\x1b[2J";
  parts.gpus[0].problems = {{"power", "\x1b]0;owned\x07"}};
  const std::string text = gpu_table(test_node(parts), plain_style(), true);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x07'), std::string::npos) << text;
  EXPECT_NE(text.find("evil"), std::string::npos) << text;
}

TEST(GpuTable, NamesNvlinkPeersInTheWideForm) {
  const std::string text = gpu_table(test_node(test_parts(4)), plain_style(), true);
  EXPECT_NE(text.find("1-3 (NV18)"), std::string::npos) << text;
  EXPECT_NE(text.find("0,2-3 (NV18)"), std::string::npos) << text;
}

TEST(GpuTable, ListsAGpuThatAnswersOnlySomeQuestions) {
  auto parts = test_parts(3);
  for (const std::size_t i : {1U, 2U}) {
    parts.gpus[i].temperature_c.reset();
    parts.gpus[i].power_mw.reset();
    parts.gpus[i].problems = {{"temperature", "Not Supported"}, {"power", "Not Supported"}};
  }
  parts.gpus[2].memory_total.reset();
  parts.gpus[2].memory_used.reset();
  parts.gpus[2].problems.push_back({"memory", "Unknown Error"});
  parts.gpus[2].health = {HealthState::kSuspect, "some questions to the driver fail"};
  EXPECT_EQ(gpu_table(test_node(parts), test_style(), false),
            R"(GPU  MODEL        MEMORY                      UTIL   TEMP        POWER  HEALTH
0    NVIDIA H200  ▇▁▁▁▁▁▁▁  12.3 / 140.4 GiB  37 %  41 °C  212 / 700 W  healthy
1    NVIDIA H200  ▇▁▁▁▁▁▁▁  12.3 / 140.4 GiB  37 %      –            –  healthy
2    NVIDIA H200                           –  37 %      –            –  suspect

3 GPUs, driver 580.159.04, CUDA 13.0 · 255.0 of 280.8 GiB free on 2 of them
GPUs 1-2: temperature, power: Not Supported
GPU 2: suspect: some questions to the driver fail
GPU 2: memory: Unknown Error
)");
}

TEST(GpuTable, ListsALostGpuWithItsReasonOnce) {
  auto parts = test_parts(1);
  model::Gpu lost;
  lost.index = model::GpuIndex(1);
  lost.health = {HealthState::kQuarantined, "GPU is lost: it fell off the bus"};
  lost.problems = {{"handle", "GPU is lost"}};
  parts.gpus.push_back(lost);
  parts.topology = model::Topology(2);
  EXPECT_EQ(gpu_table(test_node(parts), plain_style(), false),
            R"(GPU  MODEL                  MEMORY  UTIL  TEMP        POWER  HEALTH
0    NVIDIA H200  12.3 / 140.4 GiB  37 %  41 C  212 / 700 W  healthy
1    -                           -     -     -            -  quarantined

2 GPUs, driver 580.159.04, CUDA 13.0 | 127.5 of 140.4 GiB free on 1 of them
GPU 1: quarantined: GPU is lost: it fell off the bus
)");
}

TEST(GpuTable, SaysThatThereIsNoGpu) {
  EXPECT_EQ(gpu_table(test_node(test_parts(0)), test_style(), false),
            "No GPU: the driver 580.159.04 answers, but lists none.\n");
}

TEST(GpuTable, ColoursHealthAndFill) {
  auto parts = test_parts(3);
  parts.gpus[1].memory_used = gib(110);
  parts.gpus[1].health = {HealthState::kSuspect, "odd"};
  parts.gpus[2].memory_used = gib(139);
  parts.gpus[2].health = {HealthState::kQuarantined, "broken"};
  Style style = test_style();
  style.color = true;
  const std::string text = gpu_table(test_node(parts), style, false);
  for (const char* piece :
       {"\x1b[32mhealthy\x1b[0m", "\x1b[33msuspect\x1b[0m", "\x1b[31mquarantined\x1b[0m",
        "\x1b[32m▇▁▁▁▁▁▁▁\x1b[0m", "\x1b[33m▇▇▇▇▇▇▁▁\x1b[0m", "\x1b[31m▇▇▇▇▇▇▇▇\x1b[0m"}) {
    EXPECT_NE(text.find(piece), std::string::npos) << piece << "\n" << text;
  }
  style.color = false;
  EXPECT_EQ(gpu_table(test_node(parts), style, false).find('\x1b'), std::string::npos);
}

TEST(GpuTable, DropsTheBarFirstWhenTheTerminalIsNarrow) {
  Style style = test_style();
  style.columns = 77;
  const std::string text = gpu_table(test_node(test_parts(1)), style, false);
  EXPECT_EQ(text.find("▇"), std::string::npos);
  EXPECT_NE(text.find("POWER"), std::string::npos);
}

TEST(GpuTable, GoesDownToTheLeastThatIsAnAnswer) {
  auto parts = test_parts(1);
  parts.gpus[0].name = "NVIDIA RTX PRO 6000 Blackwell Server Edition";
  Style style = test_style();
  style.columns = 60;
  EXPECT_EQ(above_summary(gpu_table(test_node(parts), style, false)),
            "GPU  MODEL                      MEMORY  UTIL   TEMP  HEALTH\n"
            "0    NVIDIA RTX PRO…  12.3 / 140.4 GiB  37 %  41 °C  healthy\n");
  style.columns = 10;
  EXPECT_EQ(above_summary(gpu_table(test_node(parts), style, false)),
            "GPU  MODEL              MEMORY  HEALTH\n"
            "0    NVIDIA…  12.3 / 140.4 GiB  healthy\n");
}

TEST(GpuTable, NeverLosesColumnsOfTheWideForm) {
  Style style = test_style();
  style.columns = 40;
  const std::string text = gpu_table(test_node(test_parts(1)), style, true);
  EXPECT_EQ(text.find("▇"), std::string::npos);
  for (const char* header : {"UTIL", "TEMP", "POWER", "UUID", "DRIVER"}) {
    EXPECT_NE(text.find(header), std::string::npos) << header;
  }
}

TEST(GpuTable, MakesTextFromTheDriverSafe) {
  auto parts = test_parts(1);
  parts.gpus[0].name = "H200\x1b[2J\n";
  parts.gpus[0].problems = {{"power", "bad\x1b[0m"}};
  parts.driver_version = "580\r";
  const std::string text = gpu_table(test_node(parts), test_style(), true);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("H200\\x1b[2J\\n"), std::string::npos);
}

TEST(GpuTable, ShortensRowsOfNumbers) {
  EXPECT_EQ(to_range_list({}), "");
  EXPECT_EQ(to_range_list({3}), "3");
  EXPECT_EQ(to_range_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace divvy::cli
