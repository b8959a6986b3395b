#include "place/job_length.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace divvy::place {
namespace {

constexpr double kFirstLevelS = 600;
// Events come a hair early or late, because the caller computes in floating point.
constexpr double kSlackS = 1e-3;

constexpr int kNeighbours = 12;         // On each side.
constexpr double kNeighbourWeight = 6;  // Of the nearest; the n-th counts an n-th of it.
constexpr double kKindWeight = 64;      // Jobs of any size that count like one's own size.
constexpr double kLevelWeight = 256;    // Jobs that it takes to believe in a level of its own.
constexpr double kFirstFinished = 2;    // What is believed before anybody finished: 2 of 5.
constexpr double kFirstPassed = 5;

double begin_of(int level) { return level == 0 ? 0 : std::ldexp(kFirstLevelS, level - 1); }

}  // namespace

int JobLength::level_of(double seconds) {
  const double service = seconds + kSlackS;
  if (service < kFirstLevelS) return 0;
  return std::min(kLevels - 1, 1 + std::ilogb(service / kFirstLevelS));
}

void JobLength::submitted(std::uint32_t job, std::uint32_t gpus) {
  DIVVY_CHECK(job == jobs_.size(), "job {} submitted as number {}", job, jobs_.size());
  auto [kind, fresh] = kinds_.try_emplace(gpus);
  if (fresh) kind->second.counts.chance.fill(kFirstFinished / kFirstPassed);
  jobs_.push_back({gpus, static_cast<std::uint32_t>(kind->second.jobs.size()), 0, false});
  kind->second.jobs.push_back(job);
}

void JobLength::pass_levels(std::uint32_t job, int level) {
  Job& who = jobs_[job];
  Counts& kind = kinds_[who.gpus].counts;
  for (; who.level < level; ++who.level) {
    ++all_.passed[static_cast<std::size_t>(who.level)];
    ++kind.passed[static_cast<std::size_t>(who.level)];
  }
  top_ = std::max(top_, level);
}

bool JobLength::attained(std::uint32_t job, double seconds) {
  const int level = level_of(seconds);
  if (level <= jobs_[job].level) return false;
  pass_levels(job, level);
  return true;
}

void JobLength::finished(std::uint32_t job, double seconds) {
  const int level = std::max(level_of(seconds), jobs_[job].level);
  pass_levels(job, level);
  jobs_[job].done = true;
  const auto at = static_cast<std::size_t>(level);
  Counts& kind = kinds_[jobs_[job].gpus].counts;
  ++all_.passed[at];
  ++all_.finished[at];
  ++kind.passed[at];
  ++kind.finished[at];
}

void JobLength::refresh() {
  double finished = kFirstFinished;
  double passed = kFirstPassed;
  for (std::size_t i = 0; i < kLevels; ++i) {
    finished += all_.finished[i];
    passed += all_.passed[i];
  }
  const double anywhere = finished / passed;
  for (std::size_t i = 0; i < kLevels; ++i)
    all_.chance[i] = (all_.finished[i] + kLevelWeight * anywhere) / (all_.passed[i] + kLevelWeight);
  for (auto& [gpus, kind] : kinds_) {
    Counts& counts = kind.counts;
    for (std::size_t i = 0; i < kLevels; ++i)
      counts.chance[i] =
          (counts.finished[i] + kKindWeight * all_.chance[i]) / (counts.passed[i] + kKindWeight);
  }
}

JobLength::Outlook JobLength::outlook(std::uint32_t job) const {
  const Job& who = jobs_[job];
  const Kind& kind = kinds_.at(who.gpus);
  const int first = who.level;
  std::array<double, kLevels> passed{};
  std::array<double, kLevels> finished{};
  const auto listen = [&](std::uint32_t other, double weight) {
    const Job& neighbour = jobs_[other];
    for (int level = first; level < neighbour.level; ++level)
      passed[static_cast<std::size_t>(level)] += weight;
    if (!neighbour.done || neighbour.level < first) return;
    passed[static_cast<std::size_t>(neighbour.level)] += weight;
    finished[static_cast<std::size_t>(neighbour.level)] += weight;
  };
  for (std::uint32_t n = 1; n <= kNeighbours; ++n) {
    const double weight = kNeighbourWeight / n;
    if (who.place >= n) listen(kind.jobs[who.place - n], weight);
    if (who.place + n < kind.jobs.size()) listen(kind.jobs[who.place + n], weight);
  }

  Outlook outlook;
  double still_there = 1;  // The chance to reach this level.
  double done = 0;         // The chance to have finished before its end.
  double spent_s = 0;      // The time that is expected to be spent until then.
  for (int level = first; level < kLevels; ++level) {
    const auto at = static_cast<std::size_t>(level);
    const double chance = (finished[at] + kind.counts.chance[at]) / (passed[at] + 1);
    const double length = begin_of(level + 1) - begin_of(level);
    // Who finishes inside a level is taken to finish in its middle.
    spent_s += still_there * length * (1 - chance / 2);
    done += still_there * chance;
    still_there *= 1 - chance;
    outlook.finish_rate = std::max(outlook.finish_rate, done / spent_s);
    // Where nobody ever was there is nothing to learn; one level more keeps the estimate finite.
    if (level > top_) break;
  }
  outlook.remaining_s = spent_s;
  return outlook;
}

void JobLength::append_neighbours(std::uint32_t job, std::vector<std::uint32_t>& out) const {
  const Job& who = jobs_[job];
  const auto& jobs = kinds_.at(who.gpus).jobs;
  const std::size_t first = who.place < kNeighbours ? 0 : who.place - kNeighbours;
  const std::size_t last = std::min<std::size_t>(jobs.size(), who.place + kNeighbours + 1);
  for (std::size_t i = first; i < last; ++i)
    if (!jobs_[jobs[i]].done) out.push_back(jobs[i]);
}

double JobLength::level_begin_s(std::uint32_t job) const { return begin_of(jobs_[job].level); }
double JobLength::level_end_s(std::uint32_t job) const { return begin_of(jobs_[job].level + 1); }

}  // namespace divvy::place
