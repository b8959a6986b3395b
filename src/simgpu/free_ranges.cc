#include "simgpu/free_ranges.h"

#include <iterator>
#include <utility>

namespace divvy::simgpu {

void FreeRanges::insert(uint64_t start, uint64_t size) {
  by_start_.emplace(start, size);
  by_size_.emplace(size, start);
}

void FreeRanges::erase(ByStart::iterator range) {
  by_size_.erase({range->second, range->first});
  by_start_.erase(range);
}

// A stretch becomes another one in place, without a trip to the allocator.
void FreeRanges::reshape(ByStart::iterator range, uint64_t start, uint64_t size) {
  auto sized = by_size_.extract({range->second, range->first});
  sized.value() = {size, start};
  by_size_.insert(std::move(sized));
  if (range->first == start) {
    range->second = size;
    return;
  }
  auto started = by_start_.extract(range);
  started.key() = start;
  started.mapped() = size;
  by_start_.insert(std::move(started));
}

// Takes [start, start + size) out of a stretch that contains it.
void FreeRanges::cut(ByStart::iterator range, uint64_t start, uint64_t size) {
  const uint64_t begin = range->first;
  const uint64_t end = begin + range->second;
  total_ -= size;
  const uint64_t before = start - begin;
  const uint64_t after = end - start - size;
  if (before == 0 && after == 0) {
    erase(range);
  } else if (before == 0) {
    reshape(range, start + size, after);
  } else {
    reshape(range, begin, before);
    if (after > 0) insert(start + size, after);
  }
}

std::optional<uint64_t> FreeRanges::take(uint64_t size, uint64_t alignment) {
  for (auto it = by_size_.lower_bound({size, 0}); it != by_size_.end(); ++it) {
    const uint64_t begin = it->second;
    const uint64_t start = (begin + alignment - 1) & ~(alignment - 1);
    if (start - begin > it->first - size) continue;
    cut(by_start_.find(begin), start, size);
    return start;
  }
  return std::nullopt;
}

bool FreeRanges::take_at(uint64_t start, uint64_t size) {
  auto it = by_start_.upper_bound(start);
  if (it == by_start_.begin()) return false;
  --it;
  if (start + size > it->first + it->second) return false;
  cut(it, start, size);
  return true;
}

FreeRanges::Range FreeRanges::give(uint64_t start, uint64_t size) {
  total_ += size;
  const uint64_t end = start + size;
  const auto next = by_start_.lower_bound(start);
  const bool joins_next = next != by_start_.end() && next->first == end && joined(end);
  if (next != by_start_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start && joined(start)) {
      const Range merged{before->first, before->second + size + (joins_next ? next->second : 0)};
      if (joins_next) erase(next);
      reshape(before, merged.start, merged.size);
      return merged;
    }
  }
  if (joins_next) {
    const Range merged{start, size + next->second};
    reshape(next, merged.start, merged.size);
    return merged;
  }
  insert(start, size);
  return {start, size};
}

}  // namespace divvy::simgpu
