// The two quantities that Divvy deals in: `Bytes` of memory and `Share` of compute. Both are
// integers inside, never doubles, so that sums are exact and equal on every machine. Plain values;
// the functions are pure and callable from any thread.
//
// What people type is read by parse_bytes and parse_share (any text is safe to pass), what they see
// is written by to_string (exact, reads back as the same value) and humanize (rounded, for tables).
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/result.h"

namespace divvy {

// An amount of memory.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t count) : count_(count) {}

  [[nodiscard]] constexpr std::uint64_t count() const { return count_; }
  static constexpr Bytes max() { return Bytes(std::numeric_limits<std::uint64_t>::max()); }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;

 private:
  std::uint64_t count_ = 0;
};

// Arithmetic for amounts that come from outside: nothing when the result does not fit.
[[nodiscard]] constexpr std::optional<Bytes> checked_add(Bytes a, Bytes b) {
  if (b.count() > Bytes::max().count() - a.count()) return std::nullopt;
  return Bytes(a.count() + b.count());
}
[[nodiscard]] constexpr std::optional<Bytes> checked_sub(Bytes a, Bytes b) {
  if (b > a) return std::nullopt;
  return Bytes(a.count() - b.count());
}
[[nodiscard]] constexpr std::optional<Bytes> checked_mul(Bytes a, std::uint64_t times) {
  if (times != 0 && a.count() > Bytes::max().count() / times) return std::nullopt;
  return Bytes(a.count() * times);
}
// a - b, or zero where b is larger: "how much is left" when more than everything is in use.
[[nodiscard]] constexpr Bytes saturating_sub(Bytes a, Bytes b) {
  return checked_sub(a, b).value_or(Bytes(0));
}

// Arithmetic for amounts that are known to fit; a result that does not is a mistake and aborts.
[[nodiscard]] constexpr Bytes operator+(Bytes a, Bytes b) {
  const auto sum = checked_add(a, b);
  DIVVY_CHECK(sum.has_value(), "{} B + {} B does not fit into 64 bits", a.count(), b.count());
  return *sum;
}
[[nodiscard]] constexpr Bytes operator-(Bytes a, Bytes b) {
  const auto difference = checked_sub(a, b);
  DIVVY_CHECK(difference.has_value(), "{} B - {} B is below zero", a.count(), b.count());
  return *difference;
}
constexpr Bytes& operator+=(Bytes& a, Bytes b) { return a = a + b; }
constexpr Bytes& operator-=(Bytes& a, Bytes b) { return a = a - b; }

namespace detail {
constexpr Bytes scaled_bytes(std::uint64_t count, std::uint64_t unit) {
  const auto product = checked_mul(Bytes(unit), count);
  DIVVY_CHECK(product.has_value(), "{} x {} B does not fit into 64 bits", count, unit);
  return *product;
}
}  // namespace detail

// gib(10) is 10 GiB, for constants in code.
[[nodiscard]] constexpr Bytes kib(std::uint64_t count) {
  return detail::scaled_bytes(count, std::uint64_t{1} << 10);
}
[[nodiscard]] constexpr Bytes mib(std::uint64_t count) {
  return detail::scaled_bytes(count, std::uint64_t{1} << 20);
}
[[nodiscard]] constexpr Bytes gib(std::uint64_t count) {
  return detail::scaled_bytes(count, std::uint64_t{1} << 30);
}
[[nodiscard]] constexpr Bytes tib(std::uint64_t count) {
  return detail::scaled_bytes(count, std::uint64_t{1} << 40);
}

// Compute, in thousandths of one GPU: 300 is 0.3 GPU, 2500 is two GPUs and a half.
class Share {
 public:
  // The thousandths that make one whole GPU.
  static constexpr std::uint32_t kWhole = 1000;
  // A million GPUs: larger than any fleet, small enough that sums of a few still fit into 32 bits.
  static constexpr std::uint32_t kMaxThousandths = 1'000'000 * kWhole;

  constexpr Share() = default;
  // A share made from numbers in code; above kMaxThousandths it is a mistake and aborts.
  constexpr explicit Share(std::uint32_t thousandths) : thousandths_(thousandths) {
    DIVVY_CHECK(thousandths <= kMaxThousandths, "a share of {} thousandths is above the limit",
                thousandths);
  }

  static constexpr Share whole_gpus(std::uint32_t gpus) {
    DIVVY_CHECK(gpus <= kMaxThousandths / kWhole, "a share of {} GPUs is above the limit", gpus);
    return Share(gpus * kWhole);
  }
  static constexpr Share max() { return Share(kMaxThousandths); }

  [[nodiscard]] constexpr std::uint32_t thousandths() const { return thousandths_; }
  // 2.5 is 2 whole GPUs and a fraction of 0.5.
  [[nodiscard]] constexpr std::uint32_t whole_part() const { return thousandths_ / kWhole; }
  [[nodiscard]] constexpr Share fraction() const { return Share(thousandths_ % kWhole); }

  friend constexpr auto operator<=>(Share, Share) = default;

 private:
  std::uint32_t thousandths_ = 0;
};

[[nodiscard]] constexpr std::optional<Share> checked_add(Share a, Share b) {
  // Two shares cannot overflow 32 bits, because each is at most kMaxThousandths.
  const std::uint32_t sum = a.thousandths() + b.thousandths();
  if (sum > Share::kMaxThousandths) return std::nullopt;
  return Share(sum);
}
[[nodiscard]] constexpr std::optional<Share> checked_sub(Share a, Share b) {
  if (b > a) return std::nullopt;
  return Share(a.thousandths() - b.thousandths());
}
[[nodiscard]] constexpr Share saturating_sub(Share a, Share b) {
  return checked_sub(a, b).value_or(Share(0));
}
[[nodiscard]] constexpr Share operator+(Share a, Share b) {
  const auto sum = checked_add(a, b);
  DIVVY_CHECK(sum.has_value(), "{} + {} thousandths is above the limit", a.thousandths(),
              b.thousandths());
  return *sum;
}
[[nodiscard]] constexpr Share operator-(Share a, Share b) {
  const auto difference = checked_sub(a, b);
  DIVVY_CHECK(difference.has_value(), "{} - {} thousandths is below zero", a.thousandths(),
              b.thousandths());
  return *difference;
}
constexpr Share& operator+=(Share& a, Share b) { return a = a + b; }
constexpr Share& operator-=(Share& a, Share b) { return a = a - b; }

// The bytes that `share` of a GPU with `whole` memory comes to, rounded down, so that shares that
// sum up to one GPU never sum up to more than its memory. `share` is at most one GPU.
[[nodiscard]] Bytes portion(Bytes whole, Share share);

// The share of a GPU that goes with `part` of its `whole` memory: in thousandths, rounded up, from
// 0.001 to one GPU.
[[nodiscard]] Share share_for(Bytes part, Bytes whole);

// "10GiB", "512Mi", "1.5GiB" (powers of 1024); "10G", "512MB" (powers of 1000, as in Kubernetes);
// "1048576" or "1048576B". Upper or lower case, spaces allowed around number and unit. A fraction
// of a byte that is left over is dropped. Lower-case "m" alone is refused, because Kubernetes reads
// it as "thousandths". The error's message has a line with a caret under the wrong place.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);

// "0.3", ".5", "2.5", "4" GPUs, or "300m" thousandths. At most three decimals.
[[nodiscard]] Result<Share> parse_share(std::string_view text);

// Exact: the largest unit of 1024 that divides it ("10GiB", "1536MiB", "1234B"; zero is "0B").
[[nodiscard]] std::string to_string(Bytes bytes);
// Exact: "0.3", "2.5", "4".
[[nodiscard]] std::string to_string(Share share);

// Rounded to one decimal, for people: "139.8 GiB", "512 B". Does not read back as the same value.
[[nodiscard]] std::string humanize(Bytes bytes);

}  // namespace divvy

template <>
struct std::hash<divvy::Bytes> {
  std::size_t operator()(divvy::Bytes bytes) const noexcept {
    return std::hash<std::uint64_t>{}(bytes.count());
  }
};

template <>
struct std::hash<divvy::Share> {
  std::size_t operator()(divvy::Share share) const noexcept {
    return std::hash<std::uint32_t>{}(share.thousandths());
  }
};

template <>
struct fmt::formatter<divvy::Bytes> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(divvy::Bytes bytes, Context& context) const {
    return fmt::formatter<std::string_view>::format(divvy::to_string(bytes), context);
  }
};

template <>
struct fmt::formatter<divvy::Share> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(divvy::Share share, Context& context) const {
    return fmt::formatter<std::string_view>::format(divvy::to_string(share), context);
  }
};
