#include "api/what_if_document.h"

#include <boost/json.hpp>
#include <chrono>
#include <map>

#include "api/answers.h"
#include "place/policy.h"
#include "sim/forecast_compare.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using sim::Forecast;
using sim::ForecastJob;

constexpr std::size_t kMostShown = 1'000;
constexpr std::size_t kParts = 120;
// Of each of the two simulations.
constexpr std::chrono::milliseconds kPatience{2'000};

json::value seconds(const std::optional<model::Seconds>& time) {
  return time ? json::value(time->count()) : json::value(nullptr);
}

json::object waits_document(const sim::Waits& waits) {
  return {{"waiting", waits.waiting},
          {"notStarted", waits.not_started},
          {"medianSeconds", seconds(waits.median)},
          {"nineOfTenSeconds", seconds(waits.nine_of_ten)},
          {"longestSeconds", seconds(waits.longest)},
          {"averageSeconds", seconds(waits.average)}};
}

json::object forecast_document(const Forecast& forecast, model::Seconds period) {
  const sim::ForecastSummary summary = sim::summarise(forecast, period, kParts);
  json::array allocated(summary.allocated.begin(), summary.allocated.end());
  json::array queues;
  for (const sim::QueueForecast& queue : summary.queues) {
    queues.push_back({{"path", queue.path},
                      {"waits", waits_document(queue.waits)},
                      {"heldGpuHours", queue.held_gpu_hours}});
  }
  return {{"gpus", static_cast<double>(forecast.capacity) / Share::kWhole},
          {"waits", waits_document(summary.waits)},
          {"restarts", summary.restarts},
          {"allocation", summary.allocation},
          {"allocated", std::move(allocated)},
          {"reachedSeconds", forecast.reached.count()},
          {"end", sim::to_string(forecast.end)},
          {"queues", std::move(queues)}};
}

json::object job_document(const ForecastJob& is, const ForecastJob& would) {
  const bool endless = is.length.from == sim::LengthFrom::kEndless;
  return {{"id", is.id.value()},
          {"name", is.name},
          {"owner", is.owner},
          {"queue", is.queue},
          {"lengthSeconds", endless ? json::value(nullptr) : json::value(is.length.length.count())},
          {"lengthFrom", sim::to_string(is.length.from)},
          {"startsInSeconds", seconds(is.starts)},
          {"wouldStartInSeconds", seconds(would.starts)}};
}

// How many jobs' lengths are known in which way.
json::array assumptions(const Forecast& forecast, std::size_t left_out) {
  std::map<sim::LengthFrom, std::size_t> counts;
  for (const ForecastJob& job : forecast.jobs) ++counts[job.length.from];
  json::array said{
      "nobody submits, changes or cancels anything from now on, and no GPU fails",
      "a job that has to make way begins anew and runs its whole length again",
      "a job that already runs for longer than assumed goes on for as long again, up to its time "
      "limit"};
  const std::pair<sim::LengthFrom, std::string_view> words[] = {
      {sim::LengthFrom::kExpected, "the length that their owners expect"},
      {sim::LengthFrom::kOwner, "the median of their owners' last jobs"},
      {sim::LengthFrom::kTimeLimit, "their time limit"},
      {sim::LengthFrom::kEverybody, "the median of everybody's last jobs"},
      {sim::LengthFrom::kGuess, "an hour, because nothing is known about them"},
      {sim::LengthFrom::kEndless, "no end: slices that are held until somebody releases them"}};
  for (const auto& [from, text] : words) {
    if (counts[from] == 0) continue;
    said.push_back(
        json::value(fmt::format("{} job{}: {}", counts[from], counts[from] == 1 ? "" : "s", text)));
  }
  if (left_out != 0) {
    said.push_back(
        json::value(fmt::format("{} jobs at the end of the line are left out: {} are simulated",
                                left_out, kMostWaitingSimulated)));
  }
  return said;
}

Result<Forecast> look_ahead(jobs::Snapshot snapshot, const sim::Lengths& lengths, WallTime now) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  sim::ForecastLimits limits;
  limits.is_over = [end] { return std::chrono::steady_clock::now() >= end; };
  return sim::forecast(std::move(snapshot), lengths, now, limits);
}

}  // namespace

Result<json::object> what_if_document(jobs::Snapshot snapshot, const WhatIfRequest& request,
                                      const std::vector<std::string>& queues,
                                      const sim::Lengths& lengths, WallTime now) {
  const std::size_t left_out = snapshot.left_out;
  const std::string policy = snapshot.settings.policy;
  DIVVY_TRY(other, with_changes(snapshot, request, queues));
  DIVVY_TRY(is, look_ahead(std::move(snapshot), lengths, now));
  DIVVY_TRY(would, look_ahead(std::move(other), lengths, now));
  const model::Seconds period = sim::period_of(is, would);
  json::array jobs;
  for (std::size_t i = 0; i < is.jobs.size() && jobs.size() < kMostShown; ++i) {
    if (is.jobs[i].waited) jobs.push_back(job_document(is.jobs[i], would.jobs[i]));
  }
  json::array policies;
  for (const place::PolicyInfo& info : place::policies()) policies.emplace_back(info.name);
  json::object document = headed("WhatIf");
  document["atUnixMilliseconds"] =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  document["periodSeconds"] = period.count();
  document["asItIs"] = forecast_document(is, period);
  document["changed"] = forecast_document(would, period);
  document["jobs"] = std::move(jobs);
  document["leftOut"] = left_out;
  document["assumptions"] = assumptions(is, left_out);
  document["policies"] = std::move(policies);
  document["policy"] = policy;
  return document;
}

}  // namespace divvy::api
