// The tables of entry points keep the promises that their headers make: who resolves or exports
// names relies on them.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

enum StreamKind { kNoStream, kLegacy, kPerThread };

struct Entry {
  std::string symbol;
  std::string base;
  int since;
  StreamKind kind;
};

std::vector<Entry> entries() {
  return {
#define DIVVY_CU(symbol, base, since, stream_kind, arguments) {#symbol, base, since, stream_kind},
#include "abi/cuda_functions.inc"
  };
}

std::vector<std::string> unsimulated() {
  return {
#define DIVVY_CU_UNSIMULATED(symbol) #symbol,
#include "abi/cuda_unsimulated.inc"
  };
}

bool ends_with_per_thread_suffix(const std::string& symbol) {
  return symbol.ends_with("_ptsz") || symbol.ends_with("_ptds");
}

TEST(DriverTable, NamesEverySymbolOnce) {
  std::set<std::string> seen;
  for (const Entry& entry : entries()) {
    EXPECT_TRUE(seen.insert(entry.symbol).second) << entry.symbol;
  }
  for (const std::string& symbol : unsimulated()) {
    EXPECT_TRUE(seen.insert(symbol).second) << symbol;
  }
}

TEST(DriverTable, BaseIsTheSymbolWithoutItsSuffixes) {
  for (const Entry& entry : entries()) {
    std::string rest = entry.symbol;
    ASSERT_TRUE(rest.starts_with(entry.base)) << entry.symbol;
    rest.erase(0, entry.base.size());
    if (ends_with_per_thread_suffix(rest)) {
      rest.erase(rest.size() - 5);
    }
    EXPECT_TRUE(rest.empty() || (rest.size() == 3 && rest.starts_with("_v"))) << entry.symbol;
  }
}

TEST(DriverTable, PerThreadFormsAreThoseWithTheSuffix) {
  for (const Entry& entry : entries()) {
    EXPECT_EQ(entry.kind == kPerThread, ends_with_per_thread_suffix(entry.symbol)) << entry.symbol;
  }
}

TEST(DriverTable, LegacyFormsHaveAPerThreadTwin) {
  std::map<std::string, StreamKind> kinds;
  for (const Entry& entry : entries()) {
    kinds[entry.symbol] = entry.kind;
  }
  for (const auto& [symbol, kind] : kinds) {
    const bool has_twin = kinds.contains(symbol + "_ptsz") || kinds.contains(symbol + "_ptds");
    EXPECT_EQ(kind == kLegacy, has_twin) << symbol;
    if (kind == kPerThread) {
      EXPECT_TRUE(kinds.contains(symbol.substr(0, symbol.size() - 5))) << symbol;
    }
  }
}

TEST(DriverTable, OneSymbolAnswersForABaseAtAnyVersion) {
  std::map<std::string, std::string> answers;
  for (const Entry& entry : entries()) {
    const std::string question = entry.base + " since " + std::to_string(entry.since) +
                                 (entry.kind == kPerThread ? " per thread" : "");
    const auto [first, fresh] = answers.try_emplace(question, entry.symbol);
    EXPECT_TRUE(fresh) << question << ": " << first->second << " and " << entry.symbol;
  }
}

TEST(DriverTable, AnswersTheNewestVersionLast) {
  std::map<std::string, std::map<int, std::string>> versions;
  for (const Entry& entry : entries()) {
    if (entry.kind != kPerThread) {
      versions[entry.base][entry.since] = entry.symbol;
    }
  }
  for (const auto& [base, symbols] : versions) {
    std::string previous;
    for (const auto& [since, symbol] : symbols) {
      EXPECT_LT(previous, symbol) << base << " since " << since;
      previous = symbol;
    }
  }
}

TEST(NvmlTable, NamesEverySymbolOnce) {
  const std::vector<std::string> symbols = {
#define DIVVY_NVML(symbol, arguments) #symbol,
#include "abi/nvml_functions.inc"
  };
  const std::set<std::string> distinct(symbols.begin(), symbols.end());
  EXPECT_EQ(symbols.size(), distinct.size());
}

}  // namespace
