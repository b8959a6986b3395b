#include "place/node_fill.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include <boost/container/static_vector.hpp>

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

// How far each sequence's CPUs are from the middle of the spread: evenly, and not in their order.
constexpr std::array<double, 64> make_shifts() {
  constexpr double kGolden = 0.6180339887;
  std::array<double, 64> shifts{};
  for (std::size_t m = 0; m < shifts.size(); ++m) {
    shifts[m] = fraction(static_cast<double>(m) * kGolden) - 0.5;
  }
  return shifts;
}
constexpr std::array<double, 64> kShifts = make_shifts();

// A number for each of eight sequences, in one register.
using Eight [[gnu::vector_size(16)]] = std::int16_t;
constexpr std::size_t kLanes = 8;
// What is left on a GPU is kUnit times the thousandths, plus the GPU's place, so that no two are
// equal and the smallest one is a single one.
constexpr int kUnit = kMaxDevices;
constexpr std::int16_t kWholeUnits = kUnit * kWhole;

Eight in_every_place(int value) { return Eight{} + static_cast<std::int16_t>(value); }
Eight smaller(Eight a, Eight b) { return a < b ? a : b; }
Eight larger(Eight a, Eight b) { return a > b ? a : b; }

template <std::size_t kCount>
Eight eight_of(const std::array<std::int16_t, kCount>& values, std::size_t team) {
  Eight result;
  std::memcpy(&result, &values[team * kLanes], sizeof result);
  return result;
}

// What is left on the GPUs of one node while eight sequences fill it, each in its own way.
class Gpus {
 public:
  explicit Gpus(std::span<const std::uint16_t> free) : count_(free.size()) {
    int whole = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      rests_[i] = in_every_place(kUnit * free[i] + static_cast<int>(i));
      if (free[i] == kWhole) ++whole;
    }
    whole_ = in_every_place(whole);
  }

  // By sequence: the largest rest of a GPU in use, or above kWhole the number of whole ones.
  [[nodiscard]] Eight most() const {
    Eight part{};
    for (std::size_t i = 0; i < count_; ++i) {
      part = larger(part, rests_[i] & (rests_[i] < kWholeUnits));
    }
    return whole_ > 0 ? whole_ + std::int16_t{kWhole} : part / std::int16_t{kUnit};
  }

  // A part goes where the least is left, which is on a GPU in use if it fits on one.
  void take(Eight parts, Eight wholes) {
    const Eight units = parts * std::int16_t{kUnit};
    constexpr std::int16_t kNone = std::numeric_limits<std::int16_t>::max();
    Eight tightest = in_every_place(kNone);
    for (std::size_t i = 0; i < count_; ++i) {
      tightest = smaller(tightest, rests_[i] | ((rests_[i] < units) & kNone));
    }
    for (std::size_t i = 0; i < count_; ++i) rests_[i] -= units & (rests_[i] == tightest);
    // True is minus one.
    whole_ += ((tightest >= kWholeUnits) & (parts != 0)) - wholes;
  }

 private:
  std::size_t count_;
  std::array<Eight, kMaxDevices> rests_;
  // Wholly free ones. More places may say so: whole GPUs are handed out by counting.
  Eight whole_;
};

}  // namespace

void NodeFill::prepare(std::span<const Kind> kinds, std::span<const Typical> typical) {
  static_assert(kShifts.size() == kSequences);
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
      const std::int64_t cpu = std::min<std::int64_t>(ask.cpu_milli, kMostCpuMilli);
      step.cpu = static_cast<std::int32_t>((cpu + kCpuUnitMilli / 2) / kCpuUnitMilli);
      // A part that is as large as a GPU needs one that is wholly free.
      const bool all = ask.whole == 0 && size == kWhole;
      step.whole = static_cast<std::int16_t>(all ? 1 : ask.whole);
      step.part = static_cast<std::int16_t>(step.whole != 0 ? 0 : size);
      step.share = static_cast<std::uint32_t>(step.part) +
                   std::uint32_t{kWhole} * static_cast<std::uint32_t>(step.whole);
      usual.push_back({step, one.part, usual.size(), 0});
      if (step.share != 0) {
        set.least_cpu = std::min(set.least_cpu, cpu);
        set.least_part = std::min(set.least_part, step.whole != 0 ? kWhole : step.share);
      }
      if (usual.size() == kMostRanks) break;
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
    lay_out_levels(set);
    for (std::size_t m = 0; m < kSequences && all > 0; ++m) {
      std::size_t place = 0;
      for (std::size_t s = 0; s < kStretches.size(); ++s) {
        // Of a stretch of everything that comes, those that may use this kind: evenly by quantiles.
        const double length = static_cast<double>(kStretches[s]) * all;
        std::size_t which = 0;
        double sum = usual[0].part;
        for (double x = offset(m, kSequences, s); x < length && place < kLength; x += 1) {
          while (sum <= x / length * all && which + 1 < usual.size()) sum += usual[++which].part;
          put(set, m, place++, usual[which].rank);
        }
      }
    }
  }
}

void NodeFill::lay_out_levels(Set& set) {
  std::vector<std::int32_t> parts;
  std::vector<std::int32_t> cpus;
  std::size_t most_whole = 0;
  for (const Step& step : set.steps) {
    cpus.push_back(step.cpu);
    if (step.part != 0) parts.push_back(step.part);
    most_whole = std::max<std::size_t>(most_whole, step.whole);
  }
  const auto sort_unique = [](auto& values) {
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
  };
  sort_unique(cpus);
  sort_unique(parts);
  const auto level_in = [](const std::vector<std::int32_t>& values, std::size_t value) {
    const auto above = std::ranges::upper_bound(values, static_cast<std::int64_t>(value));
    return static_cast<std::uint16_t>(above - values.begin());
  };
  for (std::size_t i = 0; i < set.level_of_gpus.size(); ++i) {
    const std::size_t whole = i <= kWhole ? 0 : i - kWhole;
    set.level_of_gpus[i] =
        static_cast<std::uint16_t>(level_in(parts, i) + std::min(whole, most_whole));
  }
  set.level_of_cpu.resize(cpus.empty() ? 1 : static_cast<std::size_t>(cpus.back()) + 1);
  for (std::size_t i = 0; i < set.level_of_cpu.size(); ++i) {
    set.level_of_cpu[i] = level_in(cpus, i);
  }
  set.cpu_levels = cpus.size() + 1;
  set.gpu_levels = parts.size() + 1 + most_whole;
  set.ranks.assign(kSequences * kLength, 0);
  set.want_gpus.assign(kSequences, 0);
  set.fit_gpus.assign(kSequences * set.gpu_levels, 0);
  set.fit_cpu.assign(kSequences * set.cpu_levels, 0);
}

void NodeFill::put(Set& set, std::size_t sequence, std::size_t place, std::size_t rank) {
  const Step& step = set.steps[rank];
  const std::uint64_t bit = std::uint64_t{1} << place;
  set.ranks[sequence * kLength + place] = static_cast<std::uint8_t>(rank);
  if (step.share != 0) set.want_gpus[sequence] |= bit;
  // Members without a GPU fit whatever is free on the GPUs.
  const std::size_t least =
      step.whole != 0 ? kWhole + step.whole : static_cast<std::size_t>(step.part);
  for (std::size_t level = set.level_of_gpus[least]; level < set.gpu_levels; ++level) {
    set.fit_gpus[sequence * set.gpu_levels + level] |= bit;
  }
  const std::size_t enough = set.level_of_cpu[static_cast<std::size_t>(step.cpu)];
  for (std::size_t level = enough; level < set.cpu_levels; ++level) {
    set.fit_cpu[sequence * set.cpu_levels + level] |= bit;
  }
}

double NodeFill::idle_after(std::size_t kind, std::int64_t cpu_milli, std::int64_t cpu_spread,
                            std::span<const std::uint16_t> free) const {
  const std::uint64_t idle =
      kSequences * std::accumulate(free.begin(), free.end(), std::uint64_t{0});
  // One with more CPUs than are counted takes what asks for more than that, too.
  const std::uint64_t used =
      taken(sets_[kind], std::min(cpu_milli, kMostCpuMilli), cpu_spread, free);
  return static_cast<double>(idle - used) / static_cast<double>(kSequences);
}

// A step of a sequence takes long only because each part of it waits for the one before. So all
// sequences are filled at once, a step of each in turn, and without branches that depend on what is
// placed: the processor then works on several of them at the same time. What they take of the GPUs
// is worked out for eight of them with one instruction.
std::uint64_t NodeFill::taken(const Set& set, std::int64_t cpu_milli, std::int64_t cpu_spread,
                              std::span<const std::uint16_t> free) {
  if (set.steps.empty()) return 0;
  constexpr std::size_t kTeams = kSequences / kLanes;
  boost::container::static_vector<Gpus, kTeams> gpus;
  for (std::size_t team = 0; team < kTeams; ++team) gpus.emplace_back(free);
  std::array<std::int16_t, kSequences> most;
  most.fill(gpus[0].most()[0]);
  std::array<std::int16_t, kSequences> parts;
  std::array<std::int16_t, kSequences> wholes;
  std::array<std::int32_t, kSequences> cpu;  // units
  for (std::size_t m = 0; m < kSequences; ++m) {
    const auto more = static_cast<std::int32_t>(kShifts[m] * static_cast<double>(cpu_spread));
    cpu[m] = std::max(static_cast<std::int32_t>(cpu_milli) + more, 0) / kCpuUnitMilli;
  }
  const auto most_cpu = static_cast<std::int32_t>(set.level_of_cpu.size() - 1);
  std::array<std::uint64_t, kSequences> to_come;  // a bit for each place in a sequence
  to_come.fill(~std::uint64_t{0});
  std::uint64_t going = ~std::uint64_t{0};  // sequences that will take a GPU, a bit for each
  std::uint64_t taken = 0;
  for (;;) {
    for (std::uint64_t left = going; left != 0; left &= left - 1) {
      const auto m = static_cast<std::size_t>(std::countr_zero(left));
      const std::size_t gpu_level = set.level_of_gpus[static_cast<std::size_t>(most[m])];
      const std::size_t cpu_level =
          set.level_of_cpu[static_cast<std::size_t>(std::min(cpu[m], most_cpu))];
      // What does not fit now never will again, so what is passed over needs no mark.
      const std::uint64_t fitting = to_come[m] & set.fit_gpus[m * set.gpu_levels + gpu_level] &
                                    set.fit_cpu[m * set.cpu_levels + cpu_level];
      const bool goes_on = (fitting & set.want_gpus[m]) != 0;
      const int place = std::countr_zero(fitting | std::uint64_t{1} << 63);
      to_come[m] = ~std::uint64_t{1} << place;
      const Step& step = set.steps[set.ranks[m * kLength + static_cast<std::size_t>(place)]];
      going &= ~(std::uint64_t{!goes_on} << m);
      taken += step.share & -std::uint64_t{goes_on};
      cpu[m] -= step.cpu;
      parts[m] = step.part;
      wholes[m] = step.whole;
    }
    if (going == 0) return taken;
    // Sequences that have ended take something too, which nobody looks at.
    for (std::size_t team = 0; team < kTeams; ++team) {
      if ((going >> (team * kLanes) & 0xff) == 0) continue;
      gpus[team].take(eight_of(parts, team), eight_of(wholes, team));
      const Eight now = gpus[team].most();
      std::memcpy(&most[team * kLanes], &now, sizeof now);
    }
  }
}

}  // namespace divvy::place
