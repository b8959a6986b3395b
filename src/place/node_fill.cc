#include "place/node_fill.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "place/fit.h"

namespace divvy::place {
namespace {

constexpr std::uint16_t kWhole = Share::kWhole;
// A sequence is made of stretches of so many requests, within each of which the largest come first.
constexpr std::array<std::size_t, 3> kStretches{8, 24, 72};

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

double fraction(double value) { return value - std::floor(value); }

// Where in a stretch the sequence begins to pick: different in each sequence, even over all of
// them.
double offset(std::size_t sample, std::size_t samples, std::size_t stretch) {
  const double even = (static_cast<double>(sample) + 0.5) / static_cast<double>(samples);
  return stretch == 0 ? even : fraction(even + mirrored(sample, stretch + 1));
}

}  // namespace

void NodeFill::prepare(std::span<const Kind> kinds, std::span<const Typical> typical) {
  sets_.assign(kinds.size(), {});
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    struct Usual {
      Step step;
      double part;
      std::size_t place;  // in the list of typical asks
    };
    std::vector<Usual> usual;
    Set& set = sets_[k];
    set.least_cpu = std::numeric_limits<std::int32_t>::max();
    set.least_part = kWhole + 1;
    for (const Typical& one : typical) {
      const Ask& ask = one.ask;
      if (ask.wants_gpu() && (ask.models >> kinds[k].model & 1) == 0) continue;
      const std::uint32_t size = ask.whole != 0 ? kWhole : part_size(ask, kinds[k].memory);
      if (size > kWhole) continue;
      Step step;
      step.cpu = static_cast<std::int32_t>(std::min<std::int64_t>(ask.cpu_milli, 1 << 30));
      step.size = static_cast<std::uint16_t>(size);
      step.count = static_cast<std::uint16_t>(ask.whole != 0 ? ask.whole : ask.wants_part());
      usual.push_back({step, one.part, usual.size()});
      if (!ask.wants_gpu()) continue;
      set.least_cpu = std::min(set.least_cpu, ask.cpu_milli);
      set.least_part = std::min(set.least_part, size);
    }
    std::ranges::sort(usual, [](const Usual& a, const Usual& b) {
      const int size_a = a.step.size * a.step.count;
      const int size_b = b.step.size * b.step.count;
      if (size_a != size_b) return size_a > size_b;
      return a.step.cpu != b.step.cpu ? a.step.cpu > b.step.cpu : a.place < b.place;
    });
    double all = 0;
    for (const Usual& one : usual) all += one.part;
    set.steps.resize(kSamples * kLength, Step{.cpu = -1});
    for (std::size_t m = 0; m < kSamples && all > 0; ++m) {
      std::size_t place = m * kLength;
      for (std::size_t s = 0; s < kStretches.size(); ++s) {
        // Of a stretch of everything that comes, those that may use this kind: evenly by quantiles.
        const double length = static_cast<double>(kStretches[s]) * all;
        std::size_t which = 0;
        double sum = usual[0].part;
        for (double x = offset(m, kSamples, s); x < length; x += 1) {
          while (sum <= x / length * all && which + 1 < usual.size()) sum += usual[++which].part;
          set.steps[place++] = usual[which].step;
        }
      }
    }
    index(set);
  }
}

void NodeFill::index(Set& set) {
  std::vector<std::uint16_t> sizes;
  for (const Step& step : set.steps) {
    if (step.cpu < 0) continue;
    set.cpus.push_back(step.cpu);
    if (step.count == 1 && step.size < kWhole) sizes.push_back(step.size);
  }
  const auto sort_unique = [](auto& values) {
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
  };
  sort_unique(set.cpus);
  sort_unique(sizes);
  // Levels are bytes: the largest ones are then taken together, which happens with hundreds of
  // them.
  if (set.cpus.size() > 250) set.cpus.resize(250);
  if (sizes.size() > 250) sizes.resize(250);
  set.part_levels = sizes.size() + 1;
  for (std::size_t part = 0; part <= kWhole; ++part) {
    set.level_of_part[part] =
        static_cast<std::uint8_t>(std::ranges::upper_bound(sizes, part) - sizes.begin());
  }
  const std::int64_t most = set.cpus.empty() ? 0 : set.cpus.back();
  set.level_of_cpu.resize(static_cast<std::size_t>(most / kCpuStep) + 2);
  for (std::size_t i = 0; i < set.level_of_cpu.size(); ++i) {
    const auto cpu = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * kCpuStep);
    set.level_of_cpu[i] =
        static_cast<std::uint8_t>(std::ranges::upper_bound(set.cpus, cpu) - set.cpus.begin());
  }
  const std::size_t cpu_levels = set.cpus.size() + 1;
  set.parts.assign(kSamples * set.part_levels, {});
  set.wholes.assign(kSamples * (kMaxDevices + 1), {});
  set.by_cpu.assign(kSamples * cpu_levels, {});
  for (std::size_t m = 0; m < kSamples; ++m) {
    for (std::size_t i = 0; i < kLength; ++i) {
      const Step& step = set.steps[m * kLength + i];
      if (step.cpu < 0) continue;
      if (step.size < kWhole) {
        const std::size_t from = step.count == 0 ? 0 : set.level_of_part[step.size];
        for (std::size_t level = from; level < set.part_levels; ++level) {
          set.parts[m * set.part_levels + level].add(i);
        }
      } else {
        for (std::size_t whole = step.count; whole <= kMaxDevices; ++whole) {
          set.wholes[m * (kMaxDevices + 1) + whole].add(i);
        }
      }
      for (std::size_t level = cpu_level(set, step.cpu); level < cpu_levels; ++level) {
        set.by_cpu[m * cpu_levels + level].add(i);
      }
    }
  }
}

std::size_t NodeFill::cpu_level(const Set& set, std::int64_t cpu) const {
  const auto step = static_cast<std::size_t>(std::max<std::int64_t>(cpu, 0) / kCpuStep);
  if (step >= set.level_of_cpu.size()) return set.cpus.size();
  std::size_t level = set.level_of_cpu[step];
  while (level < set.cpus.size() && set.cpus[level] <= cpu) ++level;
  return level;
}

double NodeFill::idle_after(std::size_t kind, std::int64_t cpu_milli, std::int64_t cpu_spread,
                            std::span<const std::uint16_t> free) const {
  const Set& set = sets_[kind];
  constexpr double kGolden = 0.6180339887;
  std::uint64_t idle = 0;
  for (std::size_t m = 0; m < kSamples; ++m) {
    const double shift = fraction(static_cast<double>(m) * kGolden) - 0.5;
    const auto more = static_cast<std::int64_t>(shift * static_cast<double>(cpu_spread));
    idle += fill_once(set, m, cpu_milli + more, free);
  }
  return static_cast<double>(idle) / static_cast<double>(kSamples);
}

std::uint32_t NodeFill::fill_once(const Set& set, std::size_t sample, std::int64_t cpu,
                                  std::span<const std::uint16_t> free) const {
  std::array<std::uint16_t, kMaxDevices> open{};  // GPUs of which a part is free
  std::size_t opened = 0;
  std::size_t whole = 0;
  std::uint16_t most = 0;
  std::uint32_t idle = 0;
  for (const std::uint16_t left : free) {
    idle += left;
    if (left == kWhole) {
      ++whole;
    } else {
      open[opened++] = left;
      most = std::max(most, left);
    }
  }
  const Positions* parts = &set.parts[sample * set.part_levels];
  const Positions* wholes = &set.wholes[sample * (kMaxDevices + 1)];
  const Positions* by_cpu = &set.by_cpu[sample * (set.cpus.size() + 1)];
  const Step* steps = &set.steps[sample * kLength];
  for (const bool second : {false, true}) {
    const auto half = [second](const Positions& p) { return second ? p.second : p.first; };
    std::uint64_t ahead = ~std::uint64_t{0};
    for (;;) {
      const std::size_t level = whole != 0 ? set.part_levels - 1 : set.level_of_part[most];
      const std::uint64_t candidates =
          (half(parts[level]) | half(wholes[whole])) & half(by_cpu[cpu_level(set, cpu)]) & ahead;
      if (candidates == 0) break;
      const int place = std::countr_zero(candidates);
      ahead = place == 63 ? 0 : ~std::uint64_t{0} << (place + 1);
      const Step& step = steps[(second ? 64 : 0) + place];
      cpu -= step.cpu;
      if (step.size == kWhole) {
        whole -= step.count;
        idle -= std::uint32_t{kWhole} * step.count;
      } else if (step.count != 0) {
        idle -= step.size;
        std::size_t tightest = opened;
        for (std::size_t i = 0; i < opened; ++i) {
          const bool fits = open[i] >= step.size;
          if (fits && (tightest == opened || open[i] < open[tightest])) tightest = i;
        }
        if (tightest == opened) {
          --whole;
          open[opened++] = kWhole;
        }
        const bool was_most = open[tightest] >= most;
        open[tightest] = static_cast<std::uint16_t>(open[tightest] - step.size);
        if (was_most) {
          most = 0;
          for (std::size_t i = 0; i < opened; ++i) most = std::max(most, open[i]);
        }
      }
      if (idle == 0 || cpu < set.least_cpu) return idle;
    }
  }
  return idle;
}

}  // namespace divvy::place
