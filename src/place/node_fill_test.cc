#include "place/node_fill.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "place/row_index.h"

namespace divvy::place {
namespace {

Ask ask(std::uint32_t whole, std::uint32_t part, std::int64_t cpu_milli) {
  Ask result;
  result.whole = whole;
  result.part = part;
  result.cpu_milli = cpu_milli;
  return result;
}

constexpr NodeFill::Kind kKind{0, 16ULL << 30};

NodeFill filled_with(const Workload& workload) {
  NodeFill fill;
  fill.prepare(std::span(&kKind, 1), workload.typical(1));
  return fill;
}

// The same as the header says, one sequence after the other and one request after the other.
class OneByOne {
 public:
  explicit OneByOne(const Workload& workload) : usual_(workload.typical(1)) {
    std::vector<std::size_t> order(usual_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [this](std::size_t a, std::size_t b) {
      const Ask& left = usual_[a].ask;
      const Ask& right = usual_[b].ask;
      if (left.share() != right.share()) return left.share() > right.share();
      return left.cpu_milli != right.cpu_milli ? left.cpu_milli > right.cpu_milli : a < b;
    });
    std::vector<Typical> sorted;
    sorted.reserve(order.size());
    for (const std::size_t i : order) sorted.push_back(usual_[i]);
    usual_ = std::move(sorted);
  }

  double idle_after(std::int64_t cpu, std::int64_t spread,
                    const std::vector<std::uint16_t>& free) const {
    double idle = 0;
    for (std::size_t m = 0; m < 64; ++m) {
      const double shift = std::fmod(static_cast<double>(m) * 0.6180339887, 1.0) - 0.5;
      const auto more = static_cast<std::int64_t>(shift * static_cast<double>(spread));
      idle += fill(m, std::max<std::int64_t>(cpu + more, 0), free);
    }
    return idle / 64;
  }

 private:
  static double offset(std::size_t sample, std::size_t stretch) {
    double mirrored = 0;
    double digit = 1;
    for (std::size_t left = stretch == 0 ? 0 : sample; left != 0; left /= stretch + 1) {
      digit /= static_cast<double>(stretch + 1);
      mirrored += digit * static_cast<double>(left % (stretch + 1));
    }
    return std::fmod((static_cast<double>(sample) + 0.5) / 64 + mirrored, 1.0);
  }

  double fill(std::size_t sample, std::int64_t cpu, std::vector<std::uint16_t> free) const {
    double all = 0;
    for (const Typical& one : usual_) all += one.part;
    std::size_t stretch = 0;
    for (const double requests : {8.0, 24.0, 32.0}) {
      const double length = requests * all;
      std::size_t which = 0;
      double sum = usual_[0].part;
      for (double x = offset(sample, stretch++); x < length; x += 1) {
        while (sum <= x / length * all && which + 1 < usual_.size()) sum += usual_[++which].part;
        place(usual_[which].ask, cpu, free);
      }
    }
    return std::accumulate(free.begin(), free.end(), 0.0);
  }

  static void place(const Ask& ask, std::int64_t& cpu, std::vector<std::uint16_t>& free) {
    if (cpu < ask.cpu_milli) return;
    if (std::ranges::count(free, 1000) < static_cast<std::ptrdiff_t>(ask.whole)) return;
    for (std::uint32_t i = 0; i < ask.whole; ++i) *std::ranges::find(free, 1000) = 0;
    if (ask.part != 0) {
      std::ranges::sort(free);
      const auto tightest = std::ranges::find_if(free, [&](auto left) { return left >= ask.part; });
      if (tightest == free.end()) return;
      *tightest = static_cast<std::uint16_t>(*tightest - ask.part);
    }
    cpu -= ask.cpu_milli;
  }

  std::vector<Typical> usual_;
};

TEST(NodeFill, LeavesIdleWhatNothingFits) {
  Workload workload;
  workload.count(ask(0, 500, 1'000));
  const NodeFill fill = filled_with(workload);
  const std::vector<std::uint16_t> free{400, 700, 1000};
  EXPECT_EQ(fill.idle_after(0, 100'000, 0, free), 400 + 200);
  EXPECT_EQ(fill.idle_after(0, 2'000, 0, free), 400 + 700 + 1000 - 2 * 500);
  EXPECT_EQ(fill.idle_after(0, 999, 0, free), 400 + 700 + 1000);
}

TEST(NodeFill, LeavesEverythingIdleWhereNothingIsExpected) {
  const NodeFill fill = filled_with(Workload());
  EXPECT_EQ(fill.idle_after(0, 100'000, 1'000, std::vector<std::uint16_t>{400, 1000}), 1400);
}

TEST(NodeFill, CountsHugeAmountsOfCpusAsMoreThanThereAre) {
  Workload workload;
  workload.count(ask(1, 0, std::int64_t{1} << 40));
  const NodeFill fill = filled_with(workload);
  EXPECT_EQ(fill.idle_after(0, 128'000, 2'000, std::vector<std::uint16_t>{1000}), 1000);
}

// Few and many kinds of requests, few and many GPUs: each has its own way through the code.
TEST(NodeFill, BatchedSequencesMatchSingleOnes) {
  std::mt19937_64 dice(5);
  for (const std::size_t kinds : {3U, 40U, 100U, 200U}) {
    Workload workload;
    for (std::size_t i = 0; i < kinds; ++i) {
      const auto cpu = static_cast<std::int64_t>(dice() % 40 * 500 + 100);
      const std::uint64_t what = dice() % 4;
      const auto whole = static_cast<std::uint32_t>(what == 0 ? 1 + dice() % 8 : 0);
      const auto part = static_cast<std::uint32_t>(what == 1 || what == 2 ? 10 + dice() % 980 : 0);
      workload.count(ask(whole, part, cpu), 1 + dice() % 20);
    }
    const NodeFill fill = filled_with(workload);
    const OneByOne expected(workload);
    for (int i = 0; i < 100; ++i) {
      std::vector<std::uint16_t> free(1 + dice() % (i % 2 == 0 ? 8 : 16));
      for (std::uint16_t& left : free) {
        left = static_cast<std::uint16_t>(dice() % 3 == 0 ? 1000 : 1 + dice() % 999);
      }
      std::ranges::sort(free);
      const auto cpu = static_cast<std::int64_t>(dice() % 100'000);
      ASSERT_EQ(fill.idle_after(0, cpu, 2'000, free), expected.idle_after(cpu, 2'000, free))
          << kinds << " kinds, node " << i;
    }
  }
}

TEST(RowIndex, NumbersRowsInTheOrderInWhichTheyCome) {
  std::mt19937_64 dice(6);
  RowIndex rows;
  std::vector<std::uint64_t> hashes;
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    hashes.push_back(dice());
    EXPECT_EQ(rows.find(hashes.back()), RowIndex::kNowhere);
    EXPECT_EQ(rows.find_or_add(hashes.back()), i);
  }
  for (std::uint32_t i = 0; i < hashes.size(); ++i) {
    EXPECT_EQ(rows.find(hashes[i]), i);
    EXPECT_EQ(rows.find_or_add(hashes[i]), i);
  }
}

}  // namespace
}  // namespace divvy::place
