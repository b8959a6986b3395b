#include "place/node_fill.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

#include "place/fit.h"

namespace divvy::place {
namespace {

constexpr std::uint16_t kWhole = Share::kWhole;

// The digits of `number` in this base, mirrored at the point: numbers in a row are spread evenly
// between 0 and 1.
double mirrored(std::size_t number, std::size_t base) {
  double result = 0;
  double digit = 1;
  for (; number != 0; number /= base) {
    digit /= static_cast<double>(base);
    result += digit * static_cast<double>(number % base);
  }
  return result;
}

// Of a number that is not negative.
constexpr double fraction(double value) {
  return value - static_cast<double>(static_cast<std::int64_t>(value));
}

// Where in a stretch the sequence begins to pick: different in each sequence, even over all of
// them.
double offset(std::size_t sample, std::size_t samples, std::size_t stretch) {
  const double even = (static_cast<double>(sample) + 0.5) / static_cast<double>(samples);
  return stretch == 0 ? even : fraction(even + mirrored(sample, stretch + 1));
}

constexpr std::size_t kSequences = 64;

// How far each sequence's CPUs are from the middle of the spread: evenly, and not in their order.
constexpr std::array<double, kSequences> make_shifts() {
  constexpr double kGolden = 0.6180339887;
  std::array<double, kSequences> shifts{};
  for (std::size_t m = 0; m < kSequences; ++m) {
    shifts[m] = fraction(static_cast<double>(m) * kGolden) - 0.5;
  }
  return shifts;
}
constexpr std::array<double, kSequences> kShifts = make_shifts();

// What is left on eight GPUs, in one register. Each is kUnit times the thousandths, plus its place,
// so that no two are equal and the smallest one is a single one.
using Eight [[gnu::vector_size(16)]] = std::int16_t;
constexpr int kUnit = kMaxDevices;
constexpr std::int16_t kWholeUnits = kUnit * kWhole;

Eight smaller(Eight a, Eight b) { return a < b ? a : b; }
Eight larger(Eight a, Eight b) { return a > b ? a : b; }

// The smallest one, in every place; and the largest.
template <typename Pick>
Eight in_every_place(Eight of, const Pick& pick) {
  of = pick(of, __builtin_shufflevector(of, of, 4, 5, 6, 7, 0, 1, 2, 3));
  of = pick(of, __builtin_shufflevector(of, of, 2, 3, 0, 1, 6, 7, 4, 5));
  return pick(of, __builtin_shufflevector(of, of, 1, 0, 3, 2, 5, 4, 7, 6));
}

// What is left on the GPUs of a node that is being filled.
template <std::size_t kVectors>
struct Gpus {
  std::array<Eight, kVectors> rests;
  // Wholly free ones. More places may say so: whole GPUs are handed out by counting.
  std::uint32_t whole;

  Gpus() = default;
  explicit Gpus(std::span<const std::uint16_t> free) : whole(0) {
    for (std::size_t i = 0; i < 8 * kVectors; ++i) {
      const int left = i < free.size() ? free[i] : 0;
      rests[i / 8][i % 8] = static_cast<std::int16_t>(kUnit * left + static_cast<int>(i));
      if (left == kWhole) ++whole;
    }
  }

  // The largest rest of one in use, or above kWhole the number of whole ones.
  [[nodiscard]] std::uint32_t most() const {
    Eight part{};
    for (const Eight& eight : rests) part = larger(part, eight & (eight < kWholeUnits));
    const auto most_part = static_cast<std::uint32_t>(in_every_place(part, larger)[0]) / kUnit;
    return whole != 0 ? kWhole + whole : most_part;
  }

  // A part goes where the least is left, which is on a GPU in use if it fits on one.
  void take(std::int16_t part, std::uint32_t wholes) {
    const auto units = static_cast<std::int16_t>(kUnit * part);
    Eight tightest = Eight{} + std::numeric_limits<std::int16_t>::max();
    for (const Eight& eight : rests) {
      tightest = smaller(tightest, eight >= units ? eight : tightest);
    }
    tightest = in_every_place(tightest, smaller);
    for (Eight& eight : rests) eight -= units & (eight == tightest);
    const bool opened = tightest[0] >= kWholeUnits;
    whole -=
        wholes + static_cast<std::uint32_t>(static_cast<int>(opened) & static_cast<int>(part != 0));
  }
};

}  // namespace

void NodeFill::prepare(std::span<const Kind> kinds, std::span<const Typical> typical) {
  sets_.assign(kinds.size(), {});
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    struct Usual {
      Step step;
      double part;
      std::size_t place;  // in the list of typical asks
      std::size_t rank;
    };
    std::vector<Usual> usual;
    Set& set = sets_[k];
    set.least_cpu = std::numeric_limits<std::int32_t>::max();
    set.least_part = kWhole + 1;
    for (const Typical& one : typical) {
      const Ask& ask = one.ask;
      if (ask.wants_gpu() && (ask.models >> kinds[k].model & 1) == 0) continue;
      const std::uint32_t size = ask.whole != 0 ? kWhole : part_size(ask, kinds[k].memory);
      if (size > kWhole || ask.whole > kMaxDevices) continue;
      Step step;
      step.cpu = static_cast<std::int32_t>(std::min<std::int64_t>(ask.cpu_milli, 1 << 30));
      // A part that is as large as a GPU needs one that is wholly free.
      const bool all = ask.whole == 0 && size == kWhole;
      step.whole = static_cast<std::uint16_t>(all ? 1 : ask.whole);
      step.part = static_cast<std::int16_t>(step.whole != 0 ? 0 : size);
      step.share = static_cast<std::uint32_t>(step.part) + std::uint32_t{kWhole} * step.whole;
      usual.push_back({step, one.part, usual.size(), 0});
      if (usual.size() == kMostRanks) break;
    }
    for (const Usual& one : usual) {
      if (one.step.share == 0) continue;
      set.least_cpu = std::min<std::int64_t>(set.least_cpu, one.step.cpu);
      set.least_part = std::min(set.least_part, one.step.whole != 0 ? kWhole : one.step.share);
    }
    std::ranges::sort(usual, [](const Usual& a, const Usual& b) {
      if (a.step.share != b.step.share) return a.step.share > b.step.share;
      return a.step.cpu != b.step.cpu ? a.step.cpu > b.step.cpu : a.place < b.place;
    });
    double all = 0;
    for (Usual& one : usual) {
      all += one.part;
      if (set.steps.empty() || set.steps.back() != one.step) set.steps.push_back(one.step);
      one.rank = set.steps.size() - 1;
    }
    index(set);
    for (std::size_t m = 0; m < kSamples && all > 0; ++m) {
      for (std::size_t s = 0; s < kStretches.size(); ++s) {
        const std::size_t block = (m * kStretches.size() + s) * set.words;
        // Of a stretch of everything that comes, those that may use this kind: evenly by quantiles.
        const double length = static_cast<double>(kStretches[s]) * all;
        std::size_t which = 0;
        double sum = usual[0].part;
        for (double x = offset(m, kSamples, s); x < length; x += 1) {
          while (sum <= x / length * all && which + 1 < usual.size()) sum += usual[++which].part;
          const std::size_t rank = usual[which].rank;
          set.to_come[block + rank / 64] |= std::uint64_t{1} << (rank % 64);
          ++set.copies[block * 64 + rank];
        }
      }
    }
  }
}

// Without a branch that depends on the amount, which is not negative: it could not be foreseen.
[[gnu::always_inline]] inline std::size_t NodeFill::cpu_level(const Set& set, std::int32_t cpu) {
  const auto step = static_cast<std::uint32_t>(cpu) / kCpuStep;
  std::size_t level = set.level_of_cpu[std::min<std::size_t>(step, set.level_of_cpu.size() - 1)];
  for (std::size_t i = 0; i < set.cpus_in_step; ++i) level += set.cpus[level] <= cpu ? 1 : 0;
  return level;
}

void NodeFill::index(Set& set) {
  std::vector<std::int32_t> parts;
  std::size_t most_whole = 0;
  for (const Step& step : set.steps) {
    set.cpus.push_back(step.cpu);
    if (step.part != 0) parts.push_back(step.part);
    most_whole = std::max<std::size_t>(most_whole, step.whole);
  }
  const auto sort_unique = [](auto& values) {
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
  };
  sort_unique(set.cpus);
  sort_unique(parts);
  const auto level_in = [](const std::vector<std::int32_t>& values, std::int64_t value) {
    return static_cast<std::uint16_t>(std::ranges::upper_bound(values, value) - values.begin());
  };
  for (std::size_t i = 0; i < set.level_of_gpus.size(); ++i) {
    const std::size_t whole = i <= kWhole ? 0 : i - kWhole;
    const std::size_t level =
        level_in(parts, static_cast<std::int64_t>(i)) + std::min(whole, most_whole);
    set.level_of_gpus[i] = static_cast<std::uint16_t>(level);
  }
  const std::int64_t most = set.cpus.empty() ? 0 : set.cpus.back();
  set.level_of_cpu.resize(static_cast<std::size_t>(most / kCpuStep) + 2);
  for (std::size_t i = 0; i < set.level_of_cpu.size(); ++i) {
    set.level_of_cpu[i] = level_in(set.cpus, static_cast<std::int64_t>(i) * kCpuStep);
    const std::size_t before = i == 0 ? 0 : set.level_of_cpu[i - 1];
    set.cpus_in_step = std::max(set.cpus_in_step, set.level_of_cpu[i] - before);
  }
  const std::size_t cpu_levels = set.cpus.size() + 1;
  const std::size_t gpu_levels = parts.size() + 1 + most_whole;
  // An end that no rest reaches: whoever looks for a level needs not look where the list ends.
  set.cpus.push_back(std::numeric_limits<std::int32_t>::max());
  set.words = std::bit_ceil(std::max<std::size_t>((set.steps.size() + 63) / 64, 1));
  set.want_gpus.assign(set.words, 0);
  set.fit_gpus.assign(gpu_levels * set.words, 0);
  set.fit_cpu.assign(cpu_levels * set.words, 0);
  set.to_come.assign(kSamples * kStretches.size() * set.words, 0);
  set.copies.assign(set.to_come.size() * 64, 0);
  for (std::size_t rank = 0; rank < set.steps.size(); ++rank) {
    const Step& step = set.steps[rank];
    const std::uint64_t bit = std::uint64_t{1} << (rank % 64);
    if (step.share != 0) set.want_gpus[rank / 64] |= bit;
    // Members without a GPU fit whatever is free on the GPUs.
    const std::size_t least =
        step.whole != 0 ? kWhole + step.whole : static_cast<std::size_t>(step.part);
    for (std::size_t level = set.level_of_gpus[least]; level < gpu_levels; ++level) {
      set.fit_gpus[level * set.words + rank / 64] |= bit;
    }
    for (std::size_t level = cpu_level(set, step.cpu); level < cpu_levels; ++level) {
      set.fit_cpu[level * set.words + rank / 64] |= bit;
    }
  }
}

double NodeFill::idle_after(std::size_t kind, std::int64_t cpu_milli, std::int64_t cpu_spread,
                            std::span<const std::uint16_t> free) const {
  const Set& set = sets_[kind];
  const std::uint64_t idle = kSamples * std::accumulate(free.begin(), free.end(), std::uint64_t{0});
  const std::uint64_t used = free.size() <= 8 ? taken<1>(set, cpu_milli, cpu_spread, free)
                                              : taken<2>(set, cpu_milli, cpu_spread, free);
  return static_cast<double>(idle - used) / static_cast<double>(kSamples);
}

template <std::size_t kVectors>
std::uint64_t NodeFill::taken(const Set& set, std::int64_t cpu_milli, std::int64_t cpu_spread,
                              std::span<const std::uint16_t> free) {
  return set.words == 1   ? taken<kVectors, 1>(set, cpu_milli, cpu_spread, free)
         : set.words == 2 ? taken<kVectors, 2>(set, cpu_milli, cpu_spread, free)
                          : taken<kVectors, 4>(set, cpu_milli, cpu_spread, free);
}

// A step of a sequence takes long only because each part of it waits for the one before. So all
// sequences are filled at once, a step of each in turn, and without branches that depend on what is
// placed: the processor then works on several of them at the same time.
template <std::size_t kVectors, std::size_t kWords>
std::uint64_t NodeFill::taken(const Set& set, std::int64_t cpu_milli, std::int64_t cpu_spread,
                              std::span<const std::uint16_t> free) {
  constexpr std::size_t kBlocks = kStretches.size() * kWords;
  struct Run {
    Gpus<kVectors> gpus;
    std::array<std::uint64_t, kBlocks> to_come;  // ranks, by stretch and word
    std::int32_t cpu;
    std::uint32_t next;    // what it takes next: a bit of those
    std::uint32_t copies;  // so many more of that will be in the stretch then
  };
  // Whether anything more will take a GPU.
  const auto find_next = [&set](Run& run, std::size_t sample,
                                std::uint32_t most) __attribute__((always_inline)) {
    const std::uint64_t* fit_gpus = &set.fit_gpus[set.level_of_gpus[most] * kWords];
    const std::uint64_t* fit_cpu = &set.fit_cpu[cpu_level(set, run.cpu) * kWords];
    std::uint64_t first = 0;
    std::uint64_t wanted = 0;
    std::size_t block = 0;
    // What does not fit now never will again, so what was passed over needs no mark.
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const std::size_t b = kBlocks - 1 - i;
      const std::size_t word = b % kWords;
      const std::uint64_t fitting = run.to_come[b] & fit_gpus[word] & fit_cpu[word];
      wanted |= fitting & set.want_gpus[word];
      block = fitting != 0 ? b : block;
      first = fitting != 0 ? fitting : first;
    }
    const auto bit = static_cast<std::size_t>(std::countr_zero(first | std::uint64_t{1} << 63));
    const auto next = static_cast<std::uint32_t>(block * 64 + bit);
    const std::uint32_t all = set.copies[sample * kBlocks * 64 + next];
    run.copies = (next == run.next ? run.copies : all) - 1;
    run.next = next;
    run.to_come[block] &= ~(std::uint64_t{run.copies == 0} << bit);
    return wanted != 0;
  };

  const Gpus<kVectors> gpus(free);
  std::array<Run, kSamples> runs;
  std::uint64_t going = 0;  // those that will take a GPU, a bit for each
  for (std::size_t m = 0; m < kSamples; ++m) {
    Run& run = runs[m];
    const auto more = static_cast<std::int64_t>(kShifts[m] * static_cast<double>(cpu_spread));
    run.cpu = static_cast<std::int32_t>(std::clamp<std::int64_t>(cpu_milli + more, 0, 1 << 30));
    for (std::size_t b = 0; b < kBlocks; ++b) run.to_come[b] = set.to_come[m * kBlocks + b];
    run.gpus = gpus;
    run.next = kBlocks * 64;
    going |= std::uint64_t{find_next(run, m, gpus.most())} << m;
  }
  std::uint64_t taken = 0;
  while (going != 0) {
    std::uint64_t still = 0;
    for (; going != 0; going &= going - 1) {
      const auto sample = static_cast<std::size_t>(std::countr_zero(going));
      Run& run = runs[sample];
      const Step& step = set.steps[run.next % (64 * kWords)];
      taken += step.share;
      run.cpu -= step.cpu;
      run.gpus.take(step.part, step.whole);
      still |= std::uint64_t{find_next(run, sample, run.gpus.most())} << sample;
    }
    going = still;
  }
  return taken;
}

}  // namespace divvy::place
