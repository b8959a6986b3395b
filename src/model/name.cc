#include "model/name.h"

#include <algorithm>

#include "base/parse_error.h"

namespace divvy::model {
namespace {

constexpr std::size_t kLongestName = 128;

constexpr bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

constexpr bool is_inner(char c) {
  return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
}

}  // namespace

Status check_name(std::string_view of, std::string_view name) {
  const std::string as = fmt::format("the name of a {}", of);
  const auto fail = [&](std::size_t position, std::string reason) {
    return err(parse_error(
        {name, position, as, std::move(reason), "write it like train-7b or team_a.eval"}));
  };
  if (name.empty()) return fail(0, "nothing is written there");
  if (name.size() > kLongestName) {
    return fail(kLongestName, fmt::format("it is longer than {} characters", kLongestName));
  }
  const auto wrong =
      static_cast<std::size_t>(std::ranges::find_if_not(name, is_inner) - name.begin());
  if (wrong < name.size()) return fail(wrong, "only letters, digits and . _ - are allowed");
  if (!is_letter_or_digit(name.front())) return fail(0, "it has to begin with a letter or a digit");
  if (!is_letter_or_digit(name.back())) {
    return fail(name.size() - 1, "it has to end with a letter or a digit");
  }
  return {};
}

bool is_reserved_tenant_name(std::string_view name) {
  constexpr std::string_view kMember = "job-";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!name.empty() && std::ranges::all_of(name, is_digit)) return true;
  return name.starts_with(kMember) && name.size() > kMember.size() &&
         is_digit(name[kMember.size()]);
}

}  // namespace divvy::model
