#include "api/json_fields.h"

#include <algorithm>
#include <boost/json.hpp>
#include <span>

#include "base/memory_amount.h"
#include "base/text.h"
#include "model/seconds.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

Error wrong(std::string_view name, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("\"{}\" has to be {}", name, what)};
}

// As people write it, in text or, where that is the same, as a number.
constexpr model::Seconds kLongestTime = std::chrono::days(3660);

std::string written(const json::value& value) {
  if (value.is_string()) return std::string(value.as_string());
  if (value.is_double()) return fmt::format("{}", value.as_double());
  return json::serialize(value);
}

template <typename T>
Result<std::optional<T>> parsed(std::string_view name, const json::value* value,
                                const auto& parse) {
  if (value == nullptr) return std::nullopt;
  DIVVY_TRY(found, with_context(parse(written(*value)), fmt::format("\"{}\"", name)));
  return std::optional<T>(found);
}

}  // namespace

Result<JsonFields> JsonFields::parse(std::string_view body) {
  boost::system::error_code code;
  json::parse_options options;
  options.max_depth = 8;
  json::value value = json::parse(body, code, {}, options);
  if (code) return err(ErrorCode::kInvalidArgument, "the body is not JSON: {}", code.message());
  if (!value.is_object()) return err(ErrorCode::kInvalidArgument, "the body is no JSON object");
  return JsonFields(std::move(value.as_object()));
}

Result<std::optional<std::string>> JsonFields::text(std::string_view name) {
  const json::value* value = take(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return err(wrong(name, "text"));
  return std::string(value->as_string());
}

Result<std::optional<bool>> JsonFields::flag(std::string_view name) {
  const json::value* value = take(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) return err(wrong(name, "true or false"));
  return value->as_bool();
}

Result<std::optional<std::uint32_t>> JsonFields::number(std::string_view name) {
  const json::value* value = take(name);
  if (value == nullptr) return std::nullopt;
  boost::system::error_code code;
  const auto number = value->to_number<std::uint32_t>(code);
  if (code) return err(wrong(name, "a whole number"));
  return number;
}

Result<std::optional<Share>> JsonFields::share(std::string_view name) {
  return parsed<Share>(name, take(name), parse_share);
}

Result<std::optional<Bytes>> JsonFields::bytes(std::string_view name) {
  return parsed<Bytes>(name, take(name), parse_memory);
}

Result<std::optional<model::Seconds>> JsonFields::seconds(std::string_view name) {
  DIVVY_TRY(seconds, parsed<model::Seconds>(name, take(name), model::parse_seconds));
  // Added to the time of day it has to stay a time.
  if (seconds && *seconds > kLongestTime) {
    return err(ErrorCode::kOutOfRange, "\"{}\" is longer than {} days", name,
               std::chrono::floor<std::chrono::days>(kLongestTime).count());
  }
  return seconds;
}

Result<std::vector<std::string>> JsonFields::texts(std::string_view name, std::size_t most) {
  const json::value* value = take(name);
  std::vector<std::string> result;
  if (value == nullptr) return result;
  if (!value->is_array() || value->as_array().size() > most) {
    return err(wrong(name, "a list of texts"));
  }
  for (const json::value& item : value->as_array()) {
    if (!item.is_string()) return err(wrong(name, "a list of texts"));
    result.emplace_back(item.as_string());
  }
  return result;
}

Status JsonFields::nothing_left() const {
  for (const auto& entry : object_) {
    const std::string_view name = entry.key();
    if (std::ranges::find(known_, name) != known_.end()) continue;
    std::string text = fmt::format("there is no field \"{}\"", escape_for_terminal(name));
    if (const auto meant = did_you_mean(name, std::span<const std::string>(known_))) {
      text += fmt::format("; did you mean \"{}\"?", *meant);
    }
    return err(ErrorCode::kInvalidArgument, "{}", text);
  }
  return {};
}

const json::value* JsonFields::take(std::string_view name) {
  known_.emplace_back(name);
  const json::value* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace divvy::api
