// Finds rows by the hash of what they are about: rows are numbered in the order in which they came,
// and whoever uses it has them in a list of its own. Made for many look-ups that miss the caches: a
// look-up touches one line of memory, which can be asked for ahead of time. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace divvy::place {

class RowIndex {
 public:
  static constexpr std::uint32_t kNowhere = ~0U;

  RowIndex() : slots_(1024) {}

  void clear() { *this = RowIndex(); }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return slots_.capacity() * sizeof(Slot); }

  // The hash has to be good in all its bits.
  void prefetch(std::uint64_t hash) const {
    __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  [[nodiscard]] std::uint32_t find(std::uint64_t hash) const { return slots_[slot(hash)].row; }

  // Where it was not there before, it gets the next number.
  std::uint32_t find_or_add(std::uint64_t hash) {
    Slot& found = slots_[slot(hash)];
    if (found.row != kNowhere) return found.row;
    found = {hash, count_++};
    if (2 * std::size_t{count_} > slots_.size()) grow();
    return count_ - 1;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t row = kNowhere;
  };

  // Where it is, or the empty place where it would be.
  [[nodiscard]] std::size_t slot(std::uint64_t hash) const {
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].row != kNowhere && slots_[at].hash != hash) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }

  void grow() {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    for (const Slot& one : before) {
      if (one.row != kNowhere) slots_[slot(one.hash)] = one;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half in use
  std::uint32_t count_ = 0;
};

}  // namespace divvy::place
