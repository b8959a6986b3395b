#include "api/query.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>

#include "base/text.h"

namespace divvy::api {
namespace {

constexpr std::size_t kMostValues = 64;

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

Result<std::string> decode(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
    if (!low) {
      return err(ErrorCode::kInvalidArgument,
                 "\"{}\" in the query: behind % stand two hexadecimal digits",
                 escape_for_terminal(text.substr(0, 60)));
    }
    result += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return result;
}

}  // namespace

Result<Query> Query::parse(std::string_view text) {
  Query query;
  if (text.empty()) return query;
  for (const std::string_view part : split(text, '&')) {
    const std::size_t middle = std::min(part.find('='), part.size());
    DIVVY_TRY(name, decode(part.substr(0, middle)));
    DIVVY_TRY(value, decode(part.substr(std::min(middle + 1, part.size()))));
    if (query.values_.size() == kMostValues) {
      return err(ErrorCode::kInvalidArgument, "the query has more than {} values", kMostValues);
    }
    if (!query.values_.try_emplace(name, std::move(value)).second) {
      return err(ErrorCode::kInvalidArgument, "\"{}\" is in the query twice",
                 escape_for_terminal(name.substr(0, 60)));
    }
  }
  return query;
}

std::optional<std::string> Query::text(std::string_view name) {
  known_.emplace_back(name);
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> Query::list(std::string_view name) {
  std::vector<std::string> items;
  const auto value = text(name);
  if (!value || value->empty()) return items;
  for (const std::string_view item : split(*value, ',')) items.emplace_back(item);
  return items;
}

Result<std::optional<std::uint64_t>> Query::number(std::string_view name) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  std::uint64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [stopped, code] = std::from_chars(value->data(), end, number);
  // Larger ones cannot be kept.
  if (value->empty() || code != std::errc() || stopped != end ||
      number > std::numeric_limits<std::int64_t>::max()) {
    return err(ErrorCode::kInvalidArgument, "\"{}\" has to be a whole number from 0 to {}", name,
               std::numeric_limits<std::int64_t>::max());
  }
  return number;
}

Result<bool> Query::flag(std::string_view name) {
  const auto value = text(name);
  if (!value || *value == "false") return false;
  if (*value == "true") return true;
  return err(ErrorCode::kInvalidArgument, "\"{}\" has to be true or false", name);
}

Result<std::string> Query::word(std::string_view name,
                                std::initializer_list<std::string_view> words) {
  std::string typed = text(name).value_or(std::string(*words.begin()));
  if (std::ranges::find(words, typed) != words.end()) return typed;
  return err(ErrorCode::kInvalidArgument, "\"{}\" is {}", name, fmt::join(words, " or "));
}

Result<std::uint32_t> Query::limit(std::uint32_t most) {
  DIVVY_TRY(typed, number("limit"));
  if (!typed) return std::min(most, 100U);
  if (*typed == 0 || *typed > most) {
    return err(ErrorCode::kOutOfRange, "\"limit\" is a number from 1 to {}", most);
  }
  return static_cast<std::uint32_t>(*typed);
}

Result<std::optional<WallTime>> Query::time(std::string_view name) {
  DIVVY_TRY(milliseconds, number(name));
  if (!milliseconds) return std::nullopt;
  constexpr std::uint64_t kLast = std::numeric_limits<std::int64_t>::max() / 1'000'000;
  if (*milliseconds > kLast) {
    return err(ErrorCode::kOutOfRange, "\"{}\" lies beyond all calendars", name);
  }
  return WallTime(std::chrono::milliseconds(*milliseconds));
}

Status Query::nothing_left() const {
  for (const auto& [name, value] : values_) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    const auto meant = did_you_mean(name, std::span<const std::string>(known_));
    return err(ErrorCode::kInvalidArgument, "there is no \"{}\" to ask for here{}",
               escape_for_terminal(name.substr(0, 60)),
               meant ? fmt::format("; did you mean \"{}\"?", *meant) : "");
  }
  return {};
}

}  // namespace divvy::api
