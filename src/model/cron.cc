#include "model/cron.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <vector>

#include "base/text.h"

namespace divvy::model {
namespace {

constexpr std::array<std::string_view, 12> kMonths{"jan", "feb", "mar", "apr", "may", "jun",
                                                   "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kWeekdays{"sun", "mon", "tue", "wed",
                                                    "thu", "fri", "sat"};

struct Nickname {
  std::string_view name;
  std::string_view fields;
};
constexpr std::array<Nickname, 7> kNicknames{{{"@hourly", "0 * * * *"},
                                              {"@daily", "0 0 * * *"},
                                              {"@midnight", "0 0 * * *"},
                                              {"@weekly", "0 0 * * 0"},
                                              {"@monthly", "0 0 1 * *"},
                                              {"@yearly", "0 0 1 1 *"},
                                              {"@annually", "0 0 1 1 *"}}};

// Leap years are eight years apart at most.
constexpr int kDaysAhead = 8 * 366 + 1;

struct Field {
  std::string_view name;
  int least;
  int most;
  std::span<const std::string_view> names;  // of the numbers from `least` on
};
constexpr std::array<Field, 5> kFields{{{"minute", 0, 59, {}},
                                        {"hour", 0, 23, {}},
                                        {"day of the month", 1, 31, {}},
                                        {"month", 1, 12, kMonths},
                                        {"day of the week", 0, 7, kWeekdays}}};

tl::unexpected<Error> wrong(const Field& field, std::string_view text) {
  return err(ErrorCode::kInvalidArgument,
             "the {} \"{}\" is not *, or numbers from {} to {} like 5, 1-5, 1,3 or */2", field.name,
             escape_for_terminal(text.substr(0, 40)), field.least, field.most);
}

std::optional<int> number_in(const Field& field, std::string_view text) {
  const std::string lower = to_lower(text);
  for (std::size_t i = 0; i < field.names.size(); ++i) {
    if (lower == field.names[i]) return field.least + static_cast<int>(i);
  }
  int number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!whole || number < field.least || number > field.most) return std::nullopt;
  return number;
}

// "*", "5", "1-5", each with "/2" behind it; calls `set` for each number.
template <typename Set>
bool read_part(const Field& field, std::string_view part, const Set& set) {
  int step = 1;
  bool stepped = false;
  if (const std::size_t slash = part.find('/'); slash != std::string_view::npos) {
    const std::string_view text = part.substr(slash + 1);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), step);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size() || step < 1) return false;
    part = part.substr(0, slash);
    stepped = true;
  }
  int first = field.least;
  int last = field.most;
  if (part != "*") {
    const std::size_t dash = part.find('-');
    const auto from = number_in(field, part.substr(0, dash));
    if (!from) return false;
    first = *from;
    // "5/10" is from 5 on.
    if (!stepped) last = first;
    if (dash != std::string_view::npos) {
      const auto to = number_in(field, part.substr(dash + 1));
      if (!to || *to < first) return false;
      last = *to;
    }
  }
  // A large step is the first number alone.
  for (std::int64_t number = first; number <= last; number += step) set(static_cast<int>(number));
  return true;
}

template <typename Set>
Status read_field(const Field& field, std::string_view text, const Set& set) {
  for (const std::string_view part : split(text, ',')) {
    if (!read_part(field, part, set)) return wrong(field, text);
  }
  return {};
}

}  // namespace

Result<Cron> Cron::parse(std::string_view text) {
  Cron cron;
  cron.text_ = std::string(trim(text));
  std::string_view fields = cron.text_;
  const auto* const nickname = std::ranges::find(kNicknames, to_lower(fields), &Nickname::name);
  if (nickname != kNicknames.end()) fields = nickname->fields;
  std::vector<std::string_view> words;
  for (const std::string_view word : split(fields, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  if (words.size() != kFields.size()) {
    return err(ErrorCode::kInvalidArgument,
               "\"{}\" is not five fields (minute, hour, day of the month, month, day of the week) "
               "like \"0 3 * * *\", nor @hourly, @daily, @weekly, @monthly or @yearly",
               escape_for_terminal(cron.text_.substr(0, 60)));
  }
  const auto bit = [](auto& bits) {
    return [&bits](int number) { bits.set(static_cast<std::size_t>(number)); };
  };
  DIVVY_RETURN_IF_ERROR(read_field(kFields[0], words[0], bit(cron.minutes_)));
  DIVVY_RETURN_IF_ERROR(read_field(kFields[1], words[1], bit(cron.hours_)));
  DIVVY_RETURN_IF_ERROR(read_field(kFields[2], words[2], bit(cron.days_)));
  DIVVY_RETURN_IF_ERROR(read_field(kFields[3], words[3], bit(cron.months_)));
  // Sunday is 0 and 7.
  DIVVY_RETURN_IF_ERROR(read_field(kFields[4], words[4], [&](int number) {
    cron.weekdays_.set(static_cast<std::size_t>(number % 7));
  }));
  cron.any_day_ = words[2].starts_with('*');
  cron.any_weekday_ = words[4].starts_with('*');
  return cron;
}

bool Cron::has_day(int month, int day, int weekday) const {
  if (!months_.test(static_cast<std::size_t>(month))) return false;
  const bool of_month = days_.test(static_cast<std::size_t>(day));
  const bool of_week = weekdays_.test(static_cast<std::size_t>(weekday));
  if (any_day_ || any_weekday_) return of_month && of_week;
  return of_month || of_week;
}

std::optional<WallTime> Cron::next(WallTime after) const {
  const time_t begin = std::chrono::floor<std::chrono::seconds>(after).time_since_epoch().count();
  tm today{};
  if (::localtime_r(&begin, &today) == nullptr) return std::nullopt;
  for (int ahead = 0; ahead < kDaysAhead; ++ahead) {
    tm noon{};
    noon.tm_year = today.tm_year;
    noon.tm_mon = today.tm_mon;
    noon.tm_mday = today.tm_mday + ahead;
    noon.tm_hour = 12;
    noon.tm_isdst = -1;
    // Puts month, day and day of the week in order.
    if (::mktime(&noon) == -1) return std::nullopt;
    if (!has_day(noon.tm_mon + 1, noon.tm_mday, noon.tm_wday)) continue;
    std::optional<time_t> first;
    for (std::size_t hour = 0; hour < hours_.size(); ++hour) {
      for (std::size_t minute = 0; hours_.test(hour) && minute < minutes_.size(); ++minute) {
        if (!minutes_.test(minute)) continue;
        tm moment{};
        moment.tm_year = noon.tm_year;
        moment.tm_mon = noon.tm_mon;
        moment.tm_mday = noon.tm_mday;
        moment.tm_hour = static_cast<int>(hour);
        moment.tm_min = static_cast<int>(minute);
        moment.tm_isdst = -1;
        const time_t at = ::mktime(&moment);
        if (at > begin && (!first || at < *first)) first = at;
      }
    }
    if (first) return WallTime(std::chrono::seconds(*first));
  }
  return std::nullopt;
}

}  // namespace divvy::model
