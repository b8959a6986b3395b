// Lots drawn from a seed: the same seed gives the same lots on every machine, which the generators
// of the standard library promise but its distributions do not. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace divvy::place {

class Lots {
 public:
  explicit constexpr Lots(std::uint64_t seed) : state_(seed) {}

  // SplitMix64: every seed is a good one, also 0, 1, 2.
  [[nodiscard]] constexpr std::uint64_t draw() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

  // Below `end`, which is not zero. The product's upper half needs no division, and its unevenness
  // is far below what anybody could notice.
  [[nodiscard]] constexpr std::uint32_t below(std::uint32_t end) {
    return static_cast<std::uint32_t>(((draw() >> 32) * end) >> 32);
  }

  // Every order is as likely as any other.
  template <typename T>
  constexpr void shuffle(std::span<T> items) {
    for (std::size_t left = items.size(); left > 1; --left) {
      std::swap(items[left - 1], items[below(static_cast<std::uint32_t>(left))]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace divvy::place
