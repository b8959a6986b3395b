// Times that come again, as crontab(5) has them: five fields (minute, hour, day of the month,
// month, day of the week), each of "*", numbers, ranges, steps and lists, months and days also by
// name; or
// @hourly, @daily, @weekly, @monthly, @yearly. In the local time of the machine. Callable from any
// thread; any text is safe to pass.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace divvy::model {

class Cron {
 public:
  // kInvalidArgument, with the field.
  [[nodiscard]] static Result<Cron> parse(std::string_view text);

  // The first moment after that one; nothing: it never comes (30 February). An hour that the clocks
  // leave out comes when they have gone on, one that they repeat comes once.
  [[nodiscard]] std::optional<WallTime> next(WallTime after) const;
  // As it was written.
  [[nodiscard]] const std::string& text() const { return text_; }

  friend bool operator==(const Cron& a, const Cron& b) { return a.text_ == b.text_; }

 private:
  Cron() = default;
  [[nodiscard]] bool has_day(int month, int day, int weekday) const;

  std::string text_;
  std::bitset<60> minutes_;
  std::bitset<24> hours_;
  std::bitset<32> days_;
  std::bitset<13> months_;
  std::bitset<7> weekdays_;
  // Where both are restricted, either is enough.
  bool any_day_ = false;
  bool any_weekday_ = false;
};

}  // namespace divvy::model
