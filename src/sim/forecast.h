// What would become of a queue that is as this one is now: a copy of it (jobs/snapshot.h) is driven
// by the daemon's own code from event to event until everybody has run or a limit is reached.
// Nothing is submitted meanwhile and nothing breaks; how long jobs take is assumed (Lengths). A job
// that is started again runs its whole length again. The places that the original keeps for those
// who wait, and what it has learnt about lengths, are found anew.
//
// Pure and deterministic: no clock, no thread. Callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "jobs/snapshot.h"
#include "model/job.h"

namespace divvy::sim {

using model::Seconds;

// Where the length of a job is known from.
enum class LengthFrom {
  kExpected,   // its owner said so
  kOwner,      // the median of what the owner's jobs took lately
  kTimeLimit,  // it ends then at the latest
  kEverybody,  // the median of everybody's jobs
  kGuess,      // nothing is known
  kEndless,    // a slice that is held until somebody releases it
};
[[nodiscard]] std::string_view to_string(LengthFrom from);

struct Lengths {
  std::map<std::string, Seconds> of_owners;  // medians
  std::optional<Seconds> of_everybody;
  Seconds otherwise{3600};
};

struct Length {
  Seconds length{0};
  LengthFrom from = LengthFrom::kGuess;
};
// Never longer than its time limit.
[[nodiscard]] Length length_of(const model::Job& job, const Lengths& lengths);

// Medians of what ended jobs took: of owners with at least three, and of all.
struct PastJob {
  std::string owner;
  Seconds took{0};
};
[[nodiscard]] Lengths learn(std::vector<PastJob> past);

struct ForecastLimits {
  Seconds horizon{std::chrono::days(30)};
  std::uint32_t most_events = 200'000;
  // Asked between events: no more time for it.
  std::function<bool()> is_over = [] { return false; };
};

struct ForecastJob {
  model::JobId id;
  std::string name;
  std::string owner;
  std::string queue;
  bool waited = false;            // it was queued at the beginning
  std::optional<Seconds> starts;  // from the beginning on, for the first time
  std::optional<Seconds> ends;
  std::uint32_t restarts = 0;  // it had to make way, and began anew
  Length length;
};

// A job holds so much from then to then.
struct HeldSpan {
  std::size_t job = 0;  // in Forecast::jobs
  Seconds from{0};
  Seconds to{0};
  std::uint64_t share = 0;  // thousandths of a GPU
};

enum class ForecastEnd {
  kAtRest,   // nothing more happens
  kHorizon,  // what comes later was not looked at
  kOutOfTime,
};
[[nodiscard]] std::string_view to_string(ForecastEnd end);

struct Forecast {
  std::vector<ForecastJob> jobs;  // as in the snapshot
  std::vector<HeldSpan> held;
  std::uint64_t capacity = 0;  // thousandths of GPUs that take work
  Seconds reached{0};          // so far it was looked
  ForecastEnd end = ForecastEnd::kAtRest;
};

// Refused: settings, or a fleet, that no queue takes.
[[nodiscard]] Result<Forecast> forecast(jobs::Snapshot snapshot, const Lengths& lengths,
                                        WallTime now, const ForecastLimits& limits);

}  // namespace divvy::sim
