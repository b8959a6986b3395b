// When a load works and when it pauses, on the monotonic clock, so that several processes of one
// machine can begin, pause and resume at the same moments. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::gpuload {

// From `from_ns` on and before `until_ns`, counted from the common start moment.
struct Span {
  uint64_t from_ns = 0;
  uint64_t until_ns = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

class Schedule {
 public:
  // One span from the start on.
  static Schedule for_seconds(double seconds);
  // "0:5,8:20.5": spans in seconds, each after the one before. At most a day and 10,000 spans.
  static Result<Schedule> parse(std::string_view text);

  // The first moment at or after `elapsed_ns` that lies in a span; none when all are over.
  [[nodiscard]] std::optional<uint64_t> next_work(uint64_t elapsed_ns) const;
  [[nodiscard]] bool works_at(uint64_t elapsed_ns) const {
    return next_work(elapsed_ns) == elapsed_ns;
  }
  [[nodiscard]] uint64_t end_ns() const { return spans_.back().until_ns; }
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }

 private:
  explicit Schedule(std::vector<Span> spans) : spans_(std::move(spans)) {}

  std::vector<Span> spans_;  // never empty
};

// The common start moment: a number of nanoseconds on the monotonic clock, `now` for 1 ms from now,
// or `-` to say "ready" on standard error and read the number from standard input. Throws
// std::runtime_error when none comes.
uint64_t start_moment(std::string_view text);

void sleep_until(uint64_t monotonic_ns);

}  // namespace divvy::gpuload
