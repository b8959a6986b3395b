#include "place/ask.h"

#include <bit>

namespace divvy::place {

std::size_t AskHash::operator()(const Ask& ask) const noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  };
  mix(ask.whole);
  mix(ask.part);
  mix(ask.part_memory);
  mix(ask.whole_memory);
  mix(static_cast<std::uint64_t>(ask.cpu_milli));
  mix(static_cast<std::uint64_t>(ask.ram));
  mix(ask.models);
  mix(static_cast<std::uint64_t>(ask.gpus_near) * 2 + (ask.near_required ? 1 : 0));
  return hash;
}

std::uint32_t Spot::share() const {
  return static_cast<std::uint32_t>(std::popcount(whole)) * Share::kWhole + part;
}

}  // namespace divvy::place
