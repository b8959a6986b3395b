// How often somebody may ask: a bucket for each caller, refilled all the time, that holds what a
// second gives. Thread-safe; the time is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace divvy::net {

class RateLimit {
 public:
  // Callers that are remembered. Beyond, those are forgotten whose buckets are full again, and if
  // there are none, everybody is: memory is bounded, whoever calls.
  static constexpr std::size_t kMostCallers = 10'000;

  // 0: no limit.
  explicit RateLimit(std::uint32_t per_second) : per_second_(per_second) {}

  // Whether one more request may pass now.
  [[nodiscard]] bool allow(const std::string& who, TimePoint now);
  [[nodiscard]] std::size_t remembered() const;

 private:
  struct Bucket {
    TimePoint full_at;  // When it is full again
  };

  void make_room(TimePoint now);

  const std::uint32_t per_second_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace divvy::net
