#include "kube/quantity.h"

#include <array>
#include <boost/json.hpp>
#include <limits>
#include <optional>
#include <string>

#include "base/text.h"
#include "kube/whole_number.h"

namespace divvy::kube {
namespace {

__extension__ using Uint128 = unsigned __int128;

// A quantity is digits * times / per.
struct Scale {
  std::uint64_t times = 1;
  std::uint64_t per = 1;
};

struct Suffix {
  std::string_view text;
  Scale scale;
};

constexpr std::uint64_t kilo(int power) { return power == 0 ? 1 : 1000 * kilo(power - 1); }

constexpr std::array<Suffix, 16> kSuffixes{{
    {"", {}},
    {"n", {1, kilo(3)}},
    {"u", {1, kilo(2)}},
    {"m", {1, kilo(1)}},
    {"k", {kilo(1), 1}},
    {"M", {kilo(2), 1}},
    {"G", {kilo(3), 1}},
    {"T", {kilo(4), 1}},
    {"P", {kilo(5), 1}},
    {"E", {kilo(6), 1}},
    {"Ki", {std::uint64_t{1} << 10, 1}},
    {"Mi", {std::uint64_t{1} << 20, 1}},
    {"Gi", {std::uint64_t{1} << 30, 1}},
    {"Ti", {std::uint64_t{1} << 40, 1}},
    {"Pi", {std::uint64_t{1} << 50, 1}},
    {"Ei", {std::uint64_t{1} << 60, 1}},
}};

constexpr int kMostDigits = 18;  // so many fit into 64 bits, and with a suffix into 128

constexpr std::uint64_t power_of_ten(int exponent) {
  std::uint64_t power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}

std::optional<Scale> scale_of(std::string_view suffix) {
  for (const Suffix& known : kSuffixes) {
    if (known.text == suffix) return known.scale;
  }
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
  std::string_view digits = suffix.substr(1);
  if (digits[0] == '+' && digits.size() > 1) digits.remove_prefix(1);
  const auto exponent = parse_whole_number<int>(digits);
  if (!exponent || *exponent < -kMostDigits || *exponent > kMostDigits) return std::nullopt;
  if (*exponent < 0) return Scale{1, power_of_ten(-*exponent)};
  return Scale{power_of_ten(*exponent), 1};
}

tl::unexpected<Error> no_quantity(std::string_view text, std::string_view why) {
  return err(ErrorCode::kInvalidArgument, "\"{}\" {}", escape_for_terminal(text.substr(0, 60)),
             why);
}

}  // namespace

Result<std::uint64_t> parse_whole_quantity(std::string_view text) {
  constexpr std::string_view kForm = "is no quantity of Kubernetes; write it like 3, 2k or 10Gi";
  std::size_t at = text.starts_with('+') ? 1 : 0;
  if (text.starts_with('-')) return no_quantity(text, "is negative");
  std::uint64_t digits = 0;
  int used = 0;
  int decimals = 0;
  bool any = false;
  bool point = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    digits = digits * 10 + static_cast<std::uint64_t>(c - '0');
    if (digits != 0 && ++used > kMostDigits) return no_quantity(text, "has too many digits");
    if (point && ++decimals > kMostDigits) return no_quantity(text, "has too many digits");
  }
  if (!any) return no_quantity(text, kForm);
  const auto scale = scale_of(text.substr(at));
  if (!scale) return no_quantity(text, kForm);
  const Uint128 above = Uint128{digits} * scale->times;
  const Uint128 below = Uint128{power_of_ten(decimals)} * scale->per;
  if (above % below != 0) return no_quantity(text, "is no whole number");
  const Uint128 whole = above / below;
  if (whole > std::numeric_limits<std::uint64_t>::max()) {
    return no_quantity(text, "is more than 64 bits can count");
  }
  return static_cast<std::uint64_t>(whole);
}

Result<std::uint64_t> whole_quantity(const boost::json::value& value) {
  if (value.is_string()) return parse_whole_quantity(std::string_view(value.as_string()));
  boost::system::error_code code;
  const auto number = value.to_number<std::uint64_t>(code);
  if (code) return err(ErrorCode::kInvalidArgument, "this has to be a whole number");
  return number;
}

}  // namespace divvy::kube
