#include "gpuload/command_line.h"

#include <gtest/gtest.h>

namespace divvy::gpuload {
namespace {

auto parse(std::vector<const char*> words) {
  words.insert(words.begin(), "gpuload");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

template <typename Options>
Options options_of(std::vector<const char*> words) {
  const auto parsed = parse(std::move(words));
  if (const auto* mistake = std::get_if<CommandLineMistake>(&parsed)) {
    ADD_FAILURE() << mistake->sentence;
    return {};
  }
  return std::get<Options>(std::get<CommandLine>(parsed).options);
}

std::string mistake_of(std::vector<const char*> words) {
  const auto parsed = parse(std::move(words));
  const auto* mistake = std::get_if<CommandLineMistake>(&parsed);
  return mistake == nullptr ? "" : mistake->sentence;
}

TEST(CommandLine, ReadsSpin) {
  const auto spin = options_of<SpinOptions>(
      {"spin", "--us", "250", "--count", "10", "--launch", "cooperative", "--narrow"});
  EXPECT_EQ(spin.us, 250);
  EXPECT_EQ(spin.count, 10U);
  EXPECT_EQ(spin.launch, LaunchKind::kCooperative);
  EXPECT_TRUE(spin.narrow);
}

TEST(CommandLine, ReadsLoop) {
  const auto loop =
      options_of<LoopOptions>({"loop", "--body", "chain", "--us", "45", "--kernels", "8",
                               "--sync-every", "1", "--start", "-", "--run", "0:5,8:20"});
  EXPECT_EQ(loop.iteration.body, Body::kChain);
  EXPECT_EQ(loop.iteration.us, 45);
  EXPECT_EQ(loop.iteration.kernels, 8U);
  EXPECT_EQ(loop.sync_every, 1U);
  EXPECT_EQ(loop.start, "-");
  EXPECT_EQ(loop.schedule.spans().size(), 2U);
}

TEST(CommandLine, APoissonProcessTakesASchedule) {
  EXPECT_EQ(options_of<PoissonOptions>({"poisson", "--run", "1:2"}).schedule->end_ns(),
            2'000'000'000U);
  EXPECT_FALSE(options_of<PoissonOptions>({"poisson"}).schedule.has_value());
}

TEST(CommandLine, CommonOptionsMayStandOnEitherSide) {
  for (const auto& parsed : {parse({"--device", "2", "info"}), parse({"info", "--device", "2"})}) {
    EXPECT_EQ(std::get<CommandLine>(parsed).device, 2);
  }
}

TEST(CommandLine, ReadsAmountsOfMemoryAsPeopleTypeThem) {
  const auto alloc = options_of<AllocOptions>({"alloc", "--chunk", "64MiB", "--limit", "10GiB"});
  EXPECT_EQ(alloc.chunk, 64ULL << 20U);
  EXPECT_EQ(alloc.limit, 10ULL << 30U);
}

TEST(CommandLine, AllMeansEveryFamily) {
  EXPECT_EQ(options_of<AllocOptions>({"alloc", "--family", "all"}).families.size(), 11U);
  EXPECT_EQ(options_of<AllocOptions>({"alloc", "--family", "vmm, pool"}).families,
            (std::vector<std::string>{"vmm", "pool"}));
}

TEST(CommandLine, SeedReachesTheModesThatUseIt) {
  EXPECT_EQ(options_of<PoissonOptions>({"poisson", "--seed", "9"}).seed, 9U);
  EXPECT_EQ(options_of<MixOptions>({"--seed", "9", "mix"}).seed, 9U);
}

TEST(CommandLine, CopyIsPinnedUnlessPageable) {
  EXPECT_TRUE(options_of<CopyOptions>({"copy"}).pinned);
  EXPECT_TRUE(options_of<CopyOptions>({"copy", "--pinned"}).pinned);
  EXPECT_FALSE(options_of<CopyOptions>({"copy", "--pageable", "--direction", "d2h"}).pinned);
}

TEST(CommandLine, MistakesAreOneLine) {
  for (const auto& words : std::vector<std::vector<const char*>>{{},
                                                                 {"dance"},
                                                                 {"spin", "--us", "-1"},
                                                                 {"spin", "--launch", "sideways"},
                                                                 {"alloc", "--family", "cheese"},
                                                                 {"alloc", "--chunk", "10Gx"},
                                                                 {"copy", "--pinned", "--pageable"},
                                                                 {"loop", "--run", "5:4"},
                                                                 {"loop", "--body", "soul"},
                                                                 {"loop", "--seconds", "0"},
                                                                 {"info", "--nonsense"}}) {
    const std::string sentence = mistake_of(words);
    EXPECT_NE(sentence, "") << (words.empty() ? "nothing" : words.back());
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
  }
}

TEST(CommandLine, HelpNamesEveryModeButTheInnerOne) {
  const auto help = std::get<CommandLineHelp>(parse({"--help"})).text;
  for (const char* mode : {"info", "spin", "loop", "launch", "poisson", "memory", "copy", "graph",
                           "alloc", "fork", "threads", "mix"}) {
    EXPECT_NE(help.find(mode), std::string::npos) << mode;
  }
  EXPECT_EQ(help.find("serve-ipc"), std::string::npos);
}

}  // namespace
}  // namespace divvy::gpuload
