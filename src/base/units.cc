#include "base/units.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/parse_error.h"
#include "base/text.h"

namespace divvy {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }

// What is being read, for the message.
struct Subject {
  std::string_view as;
  std::string_view example;
};

constexpr Subject kMemory{"an amount of memory", "write it like 10GiB, 512Mi or 1.5G"};
constexpr Subject kShare{"a share of a GPU", "write it like 0.3, 2.5, 4 or 300m"};

// A decimal number and the blanks around it, kept as digits because the unit is not known yet.
struct Number {
  std::size_t begin = 0;
  std::optional<std::uint64_t> whole;  // Nothing when it does not fit into 64 bits.
  std::size_t point = std::string_view::npos;
  std::string_view decimals;
  std::size_t rest = 0;  // Where the unit starts; text.size() when there is none.

  [[nodiscard]] bool has_point() const { return point != std::string_view::npos; }
};

class Reader {
 public:
  Reader(std::string_view text, const Subject& subject) : text_(text), subject_(subject) {}

  [[nodiscard]] tl::unexpected<Error> fail(std::size_t position, std::string reason,
                                           ErrorCode code = ErrorCode::kInvalidArgument) const {
    return err(
        parse_error({text_, position, subject_.as, std::move(reason), subject_.example}, code));
  }

  [[nodiscard]] std::size_t skip_blanks(std::size_t at) const {
    while (at < text_.size() && is_blank(text_[at])) ++at;
    return at;
  }

  [[nodiscard]] Result<Number> number() const {
    Number number;
    std::size_t at = skip_blanks(0);
    if (at == text_.size()) return fail(at, "nothing is written there");
    if (text_[at] == '-') return fail(at, "it cannot be negative");
    number.begin = at;
    number.whole = 0;
    for (; at < text_.size() && is_digit(text_[at]); ++at) {
      const auto digit = static_cast<std::uint64_t>(text_[at] - '0');
      if (number.whole && *number.whole > (kMax64 - digit) / 10) number.whole.reset();
      if (number.whole) *number.whole = *number.whole * 10 + digit;
    }
    if (at < text_.size() && text_[at] == '.') {
      number.point = at++;
      const std::size_t first = at;
      while (at < text_.size() && is_digit(text_[at])) ++at;
      number.decimals = text_.substr(first, at - first);
      if (number.decimals.empty()) return fail(at, "a digit has to follow the point");
    } else if (at == number.begin) {
      return fail(at, "it has to begin with a number");
    }
    if (at < text_.size() && text_[at] == ',')
      return fail(at, "decimals follow a point, not a comma");
    if (at < text_.size() && text_[at] == '.') return fail(at, "there is a second point");
    number.rest = skip_blanks(at);
    return number;
  }

  // What follows the number, without the blanks at the end.
  [[nodiscard]] std::string_view unit(const Number& number) const {
    std::string_view unit = text_.substr(number.rest);
    while (!unit.empty() && is_blank(unit.back())) unit.remove_suffix(1);
    return unit;
  }

 private:
  std::string_view text_;
  const Subject& subject_;
};

struct Prefix {
  char letter;
  std::uint64_t binary;
  std::uint64_t decimal;
};

constexpr std::array<Prefix, 6> kPrefixes{{
    {'k', std::uint64_t{1} << 10, 1'000},
    {'m', std::uint64_t{1} << 20, 1'000'000},
    {'g', std::uint64_t{1} << 30, 1'000'000'000},
    {'t', std::uint64_t{1} << 40, 1'000'000'000'000},
    {'p', std::uint64_t{1} << 50, 1'000'000'000'000'000},
    {'e', std::uint64_t{1} << 60, 1'000'000'000'000'000'000},
}};

// How many bytes one of `unit` is; nothing when there is no such unit.
std::optional<std::uint64_t> bytes_per(std::string_view unit) {
  const std::string name = to_lower(unit);
  if (name.empty() || name == "b") return 1;
  for (const Prefix& prefix : kPrefixes) {
    if (name[0] != prefix.letter) continue;
    const std::string_view tail = std::string_view(name).substr(1);
    if (tail.empty() || tail == "b") return prefix.decimal;
    if (tail == "i" || tail == "ib") return prefix.binary;
  }
  return std::nullopt;
}

constexpr std::uint64_t power_of_ten(std::size_t exponent) {
  std::uint64_t power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}

std::uint64_t digits_to_number(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char digit : digits) number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  return number;
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  const Reader reader(text, kMemory);
  DIVVY_TRY(number, reader.number());
  const std::string_view unit = reader.unit(number);
  if (unit == "m") {
    return reader.fail(number.rest,
                       "\"m\" could mean thousandths (as in Kubernetes) or millions; write M for "
                       "millions of bytes or Mi for mebibytes");
  }
  const auto per_unit = bytes_per(unit);
  if (!per_unit) return reader.fail(number.rest, "unknown unit " + quote_typed(unit));

  // 10^18 times the largest unit still fits into 128 bits.
  constexpr std::size_t kMostDecimals = 18;
  if (number.decimals.size() > kMostDecimals) {
    return reader.fail(number.point + 1 + kMostDecimals, "it has more than 18 decimals");
  }
  if (number.has_point() && *per_unit == 1) {
    return reader.fail(number.point, "there is no part of a byte; is the unit missing?");
  }
  const auto too_much = [&] {
    return reader.fail(number.begin, "it is more than 64 bits can count", ErrorCode::kOutOfRange);
  };
  if (!number.whole) return too_much();
  const std::uint64_t decimals = digits_to_number(number.decimals);
  const auto from_decimals = static_cast<std::uint64_t>(Uint128{decimals} * *per_unit /
                                                        power_of_ten(number.decimals.size()));
  const auto from_whole = checked_mul(Bytes(*per_unit), *number.whole);
  if (!from_whole) return too_much();
  const auto sum = checked_add(*from_whole, Bytes(from_decimals));
  if (!sum) return too_much();
  if (*sum == Bytes(0) && decimals != 0) {
    return reader.fail(number.begin, "it is less than one byte", ErrorCode::kOutOfRange);
  }
  return *sum;
}

Result<Share> parse_share(std::string_view text) {
  const Reader reader(text, kShare);
  DIVVY_TRY(number, reader.number());
  const std::string_view unit = reader.unit(number);
  const bool in_thousandths = unit == "m";
  if (unit == "%") {
    return reader.fail(number.rest, "a percent sign is not understood, 30% of a GPU is 0.3");
  }
  if (!unit.empty() && !in_thousandths) {
    return reader.fail(number.rest, "unknown unit " + quote_typed(unit));
  }
  if (in_thousandths && number.has_point()) {
    return reader.fail(number.point, "thousandths (m) have no decimals, the smallest step is 1m");
  }
  // Zeros after the third decimal change nothing and are let through.
  constexpr std::size_t kDecimals = 3;
  const std::size_t too_fine = number.decimals.find_first_not_of('0', kDecimals);
  if (too_fine != std::string_view::npos) {
    return reader.fail(number.point + 1 + too_fine,
                       "it has more than three decimals, the smallest step is 0.001");
  }
  const std::uint64_t most = in_thousandths ? Share::kMaxThousandths : Share::max().whole_part();
  if (!number.whole || *number.whole > most) {
    return reader.fail(number.begin, "the largest share is 1000000 GPUs", ErrorCode::kOutOfRange);
  }
  if (in_thousandths) return Share(static_cast<std::uint32_t>(*number.whole));
  const std::string_view decimals = number.decimals.substr(0, kDecimals);
  const std::uint64_t thousandths =
      *number.whole * Share::kWhole +
      digits_to_number(decimals) * power_of_ten(kDecimals - decimals.size());
  if (thousandths > Share::kMaxThousandths) {
    return reader.fail(number.begin, "the largest share is 1000000 GPUs", ErrorCode::kOutOfRange);
  }
  return Share(static_cast<std::uint32_t>(thousandths));
}

Bytes portion(Bytes whole, Share share) {
  DIVVY_CHECK(share <= Share(Share::kWhole), "{} is more than one GPU", share);
  // By thousands and what is left of them: nothing overflows, and no division of 128 bits.
  const std::uint64_t thousands = whole.count() / Share::kWhole;
  const std::uint64_t left = whole.count() % Share::kWhole;
  return Bytes(thousands * share.thousandths() + left * share.thousandths() / Share::kWhole);
}

Share share_for(Bytes part, Bytes whole) {
  if (part >= whole) return Share(Share::kWhole);
  // Of memory beyond 2^50 bytes the lowest bits decide nothing, and the product fits 64.
  const int shift = std::max(0, static_cast<int>(std::bit_width(whole.count())) - 50);
  const std::uint64_t all = whole.count() >> shift;
  const std::uint64_t share = ((part.count() >> shift) * Share::kWhole + all - 1) / all;
  return Share(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, 1, Share::kWhole)));
}

std::string to_string(Bytes bytes) {
  const std::uint64_t count = bytes.count();
  if (count != 0) {
    for (auto prefix = kPrefixes.rbegin(); prefix != kPrefixes.rend(); ++prefix) {
      if (count % prefix->binary != 0) continue;
      const auto letter = static_cast<char>(prefix->letter - 'a' + 'A');
      return fmt::format("{}{}iB", count / prefix->binary, letter);
    }
  }
  return fmt::format("{}B", count);
}

std::string to_string(Share share) {
  const std::uint32_t fraction = share.thousandths() % Share::kWhole;
  if (fraction == 0) return fmt::format("{}", share.whole_part());
  std::string text = fmt::format("{}.{:03}", share.whole_part(), fraction);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string humanize(Bytes bytes) {
  const std::uint64_t count = bytes.count();
  if (count < kPrefixes.front().binary) return fmt::format("{} B", count);
  for (const Prefix& prefix : kPrefixes) {
    const auto tenths =
        static_cast<std::uint64_t>((Uint128{count} * 10 + prefix.binary / 2) / prefix.binary);
    // Decided on the rounded number, so that nothing is ever shown as 1024.0 of a smaller unit.
    if (tenths < 10'240 || prefix.letter == kPrefixes.back().letter) {
      const auto letter = static_cast<char>(prefix.letter - 'a' + 'A');
      return fmt::format("{}.{} {}iB", tenths / 10, tenths % 10, letter);
    }
  }
  DIVVY_CHECK(false, "no unit for {} bytes", count);
}

}  // namespace divvy
