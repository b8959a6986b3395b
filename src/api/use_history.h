// What members of jobs used of their GPUs in the last day, for charts. In memory only, and no more
// of it than a bound: the last half hour every five seconds, the day before that every minute, for
// the kMostSeries slices that were measured last. A restart begins anew; what has to last is in the
// books (store/usage_table.h). Callable from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/agents.h"
#include "base/clock.h"
#include "model/member_key.h"

namespace divvy::api {

class UseHistory {
 public:
  static constexpr std::chrono::seconds kStep{5};
  static constexpr std::size_t kFinePoints = 360;
  static constexpr std::size_t kStepsPerCoarse = 12;
  static constexpr std::size_t kCoarsePoints = 1440;
  static constexpr std::size_t kMostSeries = 1024;

  struct Point {
    std::int64_t unix_seconds = 0;
    std::uint32_t used_thousandths = 0;  // of the GPU
    std::uint32_t memory_mebibytes = 0;
  };
  struct Series {
    std::uint32_t rank = 0;
    std::string gpu;            // UUID
    std::vector<Point> points;  // the oldest first
  };

  // What one slice used just now.
  void add(const model::MemberKey& member, const std::string& gpu, const Point& point);
  // Of the members of an attempt.
  [[nodiscard]] std::vector<Series> of(model::JobId job, std::uint32_t attempt) const;

 private:
  struct Rings {
    std::deque<Point> fine;
    std::deque<Point> coarse;  // means, of what has left `fine`
    std::uint64_t used = 0;    // sums of what is to become the next of them
    std::uint64_t memory = 0;
    std::size_t summed = 0;
  };
  static void age(Rings& rings);

  mutable std::mutex mutex_;
  std::map<std::pair<model::MemberKey, std::string>, Rings> series_;
};

// Asks the machines every kStep, in a thread of its own, from begin() on.
class UseSampler {
 public:
  // What it refers to outlives it.
  UseSampler(const agent::Agents& agents, const Clock& clock, UseHistory& history)
      : agents_(agents), clock_(clock), history_(history) {}
  ~UseSampler();
  UseSampler(const UseSampler&) = delete;
  UseSampler& operator=(const UseSampler&) = delete;

  void begin();
  // Once. A machine that does not answer is left out.
  void sample() const;

 private:
  void run();

  const agent::Agents& agents_;
  const Clock& clock_;
  UseHistory& history_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

// Takes what the tenants of a machine use from its document (agent::View::kTenants). Whatever it
// does not understand is left out.
void add_tenants(UseHistory& history, const std::string& document, std::int64_t unix_seconds);

}  // namespace divvy::api
