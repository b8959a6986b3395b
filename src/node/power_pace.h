// How much faster a GPU works now than it could for long: a card that reaches its power limit under
// full load has power to spare when it works only a part of the time, and runs at higher clocks. A
// cap that counted time alone would then let more work through than the same part of the GPU does
// when it is used fully. Pure functions.
#pragma once

#include <optional>

namespace divvy::node {

struct PowerReading {
  double drawn_w = 0;  // the mean of about the last second
  double limit_w = 0;
};

// The work that the GPU does in a second of its time now, over the work in a second under full load
// of the same kind; at least 1. `busy` is the part of that last second in which it worked.
//
// While it works the card draws dynamic power on top of what it draws standing. Under full load the
// limit leaves room for less of it, and clock and voltage fall together until it fits.
// docs/sharing.md has the measurements behind the two constants.
[[nodiscard]] double power_pace(const PowerReading& reading, double busy);

// Follows the pace of one GPU from one reading to the next. The power of a second in which work
// began or ended does not belong to its busy time, so the smaller one of two readings counts. Used
// by one thread.
class PaceFilter {
 public:
  // Nothing is known of the power: falls back to 1.
  double update(const std::optional<PowerReading>& reading, double busy);

 private:
  double before_ = 1.0;
};

}  // namespace divvy::node
