// The free stretches of an address range: best fit, merged with their neighbours when given back.
//
// The arena (arena.h) and the stream-ordered pools (pool.h) keep their free addresses in one.
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace divvy::simgpu {

class FreeRanges {
 public:
  struct Range {
    uint64_t start = 0;
    uint64_t size = 0;
  };

  // Ranges are never merged over a multiple of `boundary`, a power of two; zero means that they
  // may always be.
  explicit FreeRanges(uint64_t boundary = 0) : boundary_(boundary) {}

  // Takes `size` bytes from the smallest stretch that has room; `alignment` is a power of two.
  std::optional<uint64_t> take(uint64_t size, uint64_t alignment);
  // Takes exactly these bytes if all are free.
  bool take_at(uint64_t start, uint64_t size);
  // Gives bytes back and returns the free stretch that they are now part of.
  Range give(uint64_t start, uint64_t size);

  uint64_t total() const { return total_; }
  const std::map<uint64_t, uint64_t>& all() const { return by_start_; }

 private:
  using ByStart = std::map<uint64_t, uint64_t>;
  void cut(ByStart::iterator range, uint64_t start, uint64_t size);
  bool joined(uint64_t edge) const { return boundary_ == 0 || (edge & (boundary_ - 1)) != 0; }
  void insert(uint64_t start, uint64_t size);
  void erase(ByStart::iterator range);
  void reshape(ByStart::iterator range, uint64_t start, uint64_t size);

  uint64_t boundary_;
  uint64_t total_ = 0;
  ByStart by_start_;                                 // start to size
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // size and start
};

}  // namespace divvy::simgpu
