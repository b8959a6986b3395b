#include "node/health_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <variant>

#include "base/text.h"

namespace divvy::node {
namespace {

constexpr Duration kLongest = std::chrono::hours(24 * 30);

using Field = std::variant<Duration HealthSettings::*, Duration HealthPolicy::*,
                           std::uint32_t HealthPolicy::*, OnFailure HealthSettings::*>;
struct Named {
  std::string_view name;
  Field field;
};

const std::array kFields = {
    Named{"sample_interval", &HealthSettings::sample_interval},
    Named{"idle_interval", &HealthSettings::idle_interval},
    Named{"answer_time", &HealthSettings::answer_time},
    Named{"probe_time", &HealthSettings::probe_time},
    Named{"on_failure", &HealthSettings::on_failure},
    Named{"grace_time", &HealthSettings::grace_time},
    Named{"suspect_time", &HealthPolicy::suspect_time},
    Named{"failing_time", &HealthPolicy::failing_time},
    Named{"strikes", &HealthPolicy::strikes},
    Named{"strike_window", &HealthPolicy::strike_window},
    Named{"quarantine_time", &HealthPolicy::quarantine_time},
    Named{"longest_quarantine", &HealthPolicy::longest_quarantine},
    Named{"forget_time", &HealthPolicy::forget_time},
    Named{"probation_probes", &HealthPolicy::probation_probes},
    Named{"probation_interval", &HealthPolicy::probation_interval},
    Named{"hot_time", &HealthPolicy::hot_time},
    Named{"hot_margin_c", &HealthPolicy::hot_margin_c},
};

Result<std::uint32_t> parse_count(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || number == 0 || number > 1000) {
    return err(ErrorCode::kInvalidArgument, "needs a number from 1 to 1000");
  }
  return number;
}

Result<OnFailure> parse_on_failure(std::string_view text) {
  if (text == "keep") return OnFailure::kKeep;
  if (text == "end") return OnFailure::kEnd;
  return err(ErrorCode::kInvalidArgument, "is keep or end");
}

struct Setter {
  HealthSettings& settings;
  std::string_view text;

  Status operator()(Duration HealthSettings::* field) const {
    DIVVY_TRY(value, parse_duration(text));
    settings.*field = value;
    return {};
  }
  Status operator()(Duration HealthPolicy::* field) const {
    DIVVY_TRY(value, parse_duration(text));
    settings.policy.*field = value;
    return {};
  }
  Status operator()(std::uint32_t HealthPolicy::* field) const {
    DIVVY_TRY(value, parse_count(text));
    settings.policy.*field = value;
    return {};
  }
  Status operator()(OnFailure HealthSettings::* field) const {
    DIVVY_TRY(value, parse_on_failure(text));
    settings.*field = value;
    return {};
  }
};

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const std::string_view word = trim(text);
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(word.data() + word.size() - end));
  Duration one(0);
  if (unit == "ms") one = std::chrono::milliseconds(1);
  if (unit == "s") one = std::chrono::seconds(1);
  if (unit == "m") one = std::chrono::minutes(1);
  if (unit == "h") one = std::chrono::hours(1);
  if (code != std::errc() || number < 0 || one.count() == 0 || number > kLongest / one) {
    return err(ErrorCode::kInvalidArgument,
               "\"{}\" is no time; write 250ms, 10s, 5m or 1h (at most 720h)",
               escape_for_terminal(text.substr(0, 40)));
  }
  return number * one;
}

std::vector<std::string> health_setting_names() {
  std::vector<std::string> names;
  names.reserve(kFields.size());
  for (const Named& field : kFields) names.emplace_back(field.name);
  return names;
}

Status set_health(HealthSettings& settings, std::string_view name, std::string_view value) {
  const auto found = std::ranges::find(kFields, name, &Named::name);
  if (found != kFields.end()) {
    const Status done = std::visit(Setter{settings, value}, found->field);
    return with_context(done, name);
  }
  const std::vector<std::string> names = health_setting_names();
  std::string advice = fmt::format("they are {}", fmt::join(names, ", "));
  if (const auto meant = did_you_mean(name, std::span<const std::string>(names))) {
    advice = fmt::format("did you mean {}?", *meant);
  }
  return err(ErrorCode::kInvalidArgument, "there is no setting \"{}\" of health; {}",
             escape_for_terminal(name.substr(0, 60)), advice);
}

}  // namespace divvy::node
