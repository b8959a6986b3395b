// What people compare two forecasts by: how long those wait who are in the queue, and how much of
// the GPUs is held, both over the same time. Pure, callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/forecast.h"

namespace divvy::sim {

// From the beginning to the first start, of those who waited at the beginning.
struct Waits {
  std::uint32_t waiting = 0;
  std::uint32_t not_started = 0;  // as far as it was looked
  // Of all, those that did not start counted as waiting for ever: nothing where that is one of
  // them.
  std::optional<Seconds> median;
  std::optional<Seconds> nine_of_ten;
  std::optional<Seconds> longest;
  std::optional<Seconds> average;  // of those that start; nothing where none does
};

struct QueueForecast {
  std::string path;
  Waits waits;
  double held_gpu_hours = 0;
};

struct ForecastSummary {
  Waits waits;
  std::uint32_t restarts = 0;
  double allocation = 0;              // of the GPUs, from 0 to 1, over the period
  std::vector<double> allocated;      // GPUs, on average in each part of the period
  std::vector<QueueForecast> queues;  // by name; without those that have no job
};

// How long both are to be looked at: until the later of them is at rest, as far as both were
// looked, and a week at most. Never nothing.
[[nodiscard]] Seconds period_of(const Forecast& one, const Forecast& other);

[[nodiscard]] ForecastSummary summarise(const Forecast& forecast, Seconds period,
                                        std::size_t parts);

}  // namespace divvy::sim
