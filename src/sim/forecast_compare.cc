#include "sim/forecast_compare.h"

#include <algorithm>
#include <map>

namespace divvy::sim {
namespace {

constexpr Seconds kLongestPeriod = std::chrono::days(7);

class WaitList {
 public:
  void add(const ForecastJob& job) {
    if (!job.waited) return;
    ++waits_.waiting;
    if (!job.starts) {
      ++waits_.not_started;
      return;
    }
    started_.push_back(*job.starts);
  }

  [[nodiscard]] Waits finish() {
    if (waits_.waiting == 0) return waits_;
    std::ranges::sort(started_);
    waits_.median = at((waits_.waiting - 1) / 2);
    waits_.nine_of_ten = at((waits_.waiting * std::size_t{9} + 9) / 10 - 1);
    waits_.longest = at(waits_.waiting - 1);
    Seconds sum(0);
    for (const Seconds wait : started_) sum += wait;
    if (!started_.empty()) waits_.average = sum / static_cast<Seconds::rep>(started_.size());
    return waits_;
  }

 private:
  [[nodiscard]] std::optional<Seconds> at(std::size_t place) const {
    return place < started_.size() ? std::optional(started_[place]) : std::nullopt;
  }

  Waits waits_;
  std::vector<Seconds> started_;
};

double seconds_within(const HeldSpan& span, double from, double to) {
  const double begin = std::max(from, static_cast<double>(span.from.count()));
  const double end = std::min(to, static_cast<double>(span.to.count()));
  return std::max(end - begin, 0.0) * static_cast<double>(span.share) / Share::kWhole;
}

}  // namespace

Seconds period_of(const Forecast& one, const Forecast& other) {
  Seconds period = std::max(one.reached, other.reached);
  for (const Forecast* const forecast : {&one, &other}) {
    if (forecast->end != ForecastEnd::kAtRest) period = std::min(period, forecast->reached);
  }
  return std::clamp(period, Seconds(1), kLongestPeriod);
}

ForecastSummary summarise(const Forecast& forecast, Seconds period, std::size_t parts) {
  ForecastSummary summary;
  WaitList all;
  std::map<std::string, WaitList> waits;
  std::map<std::string, double> held;  // GPU seconds
  for (const ForecastJob& job : forecast.jobs) {
    all.add(job);
    waits[job.queue].add(job);
    summary.restarts += job.restarts;
  }
  const auto length = static_cast<double>(period.count());
  const double part = length / static_cast<double>(parts);
  summary.allocated.resize(parts);
  double sum = 0;
  for (HeldSpan span : forecast.held) {
    // What holds on when everything is at rest does so for ever.
    if (forecast.end == ForecastEnd::kAtRest && span.to == forecast.reached &&
        !forecast.jobs[span.job].ends) {
      span.to = std::max(span.to, period);
    }
    const double within = seconds_within(span, 0, length);
    sum += within;
    held[forecast.jobs[span.job].queue] += within;
    const auto first = static_cast<std::size_t>(static_cast<double>(span.from.count()) / part);
    for (std::size_t i = first; i < parts; ++i) {
      const double from = part * static_cast<double>(i);
      if (from >= static_cast<double>(span.to.count())) break;
      summary.allocated[i] += seconds_within(span, from, from + part) / part;
    }
  }
  summary.waits = all.finish();
  const double possible = length * static_cast<double>(forecast.capacity) / Share::kWhole;
  summary.allocation = possible > 0 ? sum / possible : 0;
  for (auto& [path, list] : waits) {
    summary.queues.push_back({path, list.finish(), held[path] / 3600});
  }
  return summary;
}

}  // namespace divvy::sim
