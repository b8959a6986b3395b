// What happens on a random day of the property tests: each of them reads kinds and lots in its own
// way.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <ostream>
#include <vector>

namespace divvy::kube::testing {

struct RandomEvent {
  std::uint8_t kind = 0;
  std::uint32_t lot = 0;
};

inline void showValue(const RandomEvent& event, std::ostream& out) {
  out << int{event.kind} << ':' << event.lot;
}

// Long days: it takes many steps until a pod runs.
inline std::vector<RandomEvent> any_events() {
  const auto event = rc::gen::build<RandomEvent>(
      rc::gen::set(&RandomEvent::kind, rc::gen::inRange<std::uint8_t>(0, 24)),
      rc::gen::set(&RandomEvent::lot, rc::gen::arbitrary<std::uint32_t>()));
  return *rc::gen::scale(2.0, rc::gen::container<std::vector<RandomEvent>>(event));
}

}  // namespace divvy::kube::testing
