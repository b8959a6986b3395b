#include "node/power_pace.h"

#include <algorithm>
#include <cmath>

namespace divvy::node {
namespace {

// What a card at full clocks draws without work, as a part of its limit: 113 W of 700 on an H200.
// A wrong guess costs little: a third less changes the pace by less than one per cent.
constexpr double kStandingPart = 0.16;
// Work grows with this power of the dynamic power that it may draw.
constexpr double kWorkPerPower = 0.43;
// Too little work to tell the power of it from the noise.
constexpr double kLeastBusy = 0.02;
// Power and busy time are not measured over quite the same second: closer than this is the same.
constexpr double kNoise = 1.05;
// More than any card gains; beyond it a reading is a mistake.
constexpr double kMostPace = 1.6;

}  // namespace

double power_pace(const PowerReading& reading, double busy) {
  if (!(reading.limit_w > 0) || !(busy >= kLeastBusy)) return 1.0;
  const double standing = kStandingPart * reading.limit_w;
  const double under_full_load = (reading.drawn_w - standing) / std::min(busy, 1.0);
  const double room = reading.limit_w - standing;
  if (!(under_full_load > kNoise * room)) return 1.0;
  return std::min(std::pow(under_full_load / room, kWorkPerPower), kMostPace);
}

double PaceFilter::update(const std::optional<PowerReading>& reading, double busy) {
  const double now = reading.has_value() ? power_pace(*reading, busy) : 1.0;
  const double pace = std::min(before_, now);
  before_ = now;
  return pace;
}

}  // namespace divvy::node
