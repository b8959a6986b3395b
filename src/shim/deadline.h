// A moment on the monotonic clock by which something has to be over.
#pragma once

#include <stdint.h>
#include <time.h>

namespace divvy::shim {

class Deadline {
 public:
  explicit Deadline(int ms) : at_ns_(now_ns() + int64_t{ms} * 1'000'000) {}
  // Rounded up; 0 when it is over.
  [[nodiscard]] int left_ms() const {
    const int64_t left = at_ns_ - now_ns();
    return left <= 0 ? 0 : static_cast<int>((left + 999'999) / 1'000'000);
  }
  [[nodiscard]] bool over() const { return now_ns() >= at_ns_; }

 private:
  static int64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  int64_t at_ns_;
};

}  // namespace divvy::shim
