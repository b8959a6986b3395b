// How long something took, counted in buckets: DurationCounts is the plain value that is shown,
// Timings is what any number of threads count into without a lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace divvy {

// Upper ends of the buckets. One list for everything, so that dashboards can lay one over the
// other, and a short one: every tenant has a line for each. The last bucket, beyond five seconds,
// has no end.
constexpr std::array<std::uint64_t, 10> kBucketEndsNs = {
    100'000,    1'000'000,   5'000'000,   10'000'000,    25'000'000,
    50'000'000, 100'000'000, 250'000'000, 1'000'000'000, 5'000'000'000,
};

[[nodiscard]] constexpr std::size_t bucket_of(std::uint64_t ns) {
  return static_cast<std::size_t>(std::ranges::lower_bound(kBucketEndsNs, ns) -
                                  kBucketEndsNs.begin());
}

// Not for several threads at once.
struct DurationCounts {
  std::array<std::uint64_t, kBucketEndsNs.size() + 1> buckets{};  // Each counts its own alone
  std::uint64_t sum_ns = 0;

  void add(std::uint64_t ns) {
    ++buckets[bucket_of(ns)];
    sum_ns += ns;
  }
  friend bool operator==(const DurationCounts&, const DurationCounts&) = default;
};

class Timings {
 public:
  // From any thread; never waits.
  void record(Duration took) {
    const auto ns = static_cast<std::uint64_t>(std::max<Duration::rep>(took.count(), 0));
    buckets_[bucket_of(ns)].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  // What is being recorded at this moment may be in the sum and not yet in a bucket.
  [[nodiscard]] DurationCounts counts() const {
    DurationCounts result;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      result.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    }
    result.sum_ns = sum_ns_.load(std::memory_order_relaxed);
    return result;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kBucketEndsNs.size() + 1> buckets_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};

// Records how long it lived.
class ScopedTiming {
 public:
  // Both outlive it.
  ScopedTiming(Timings& timings, const Clock& clock)
      : timings_(timings), clock_(clock), began_(clock.now()) {}
  ~ScopedTiming() { timings_.record(clock_.now() - began_); }
  ScopedTiming(const ScopedTiming&) = delete;
  ScopedTiming& operator=(const ScopedTiming&) = delete;

 private:
  Timings& timings_;
  const Clock& clock_;
  TimePoint began_;
};

}  // namespace divvy
