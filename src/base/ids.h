// Strong ids: integers that cannot be mixed up with each other or with a count. Plain values.
//
//   using JobId = StrongId<struct JobIdTag>;
//
// Ids are dense (0, 1, 2, ...) wherever Divvy hands them out, so that they can index a vector.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace divvy {

template <typename Tag, std::unsigned_integral Rep = std::uint32_t>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  // The id that a dense sequence hands out after this one.
  [[nodiscard]] constexpr StrongId next() const { return StrongId(static_cast<Rep>(value_ + 1)); }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Rep value_ = 0;
};

}  // namespace divvy

template <typename Tag, typename Rep>
struct std::hash<divvy::StrongId<Tag, Rep>> {
  std::size_t operator()(divvy::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};

// Prints as its number and takes the number's format specifications ("{:>4}").
template <typename Tag, typename Rep>
struct fmt::formatter<divvy::StrongId<Tag, Rep>> : fmt::formatter<Rep> {
  template <typename Context>
  auto format(divvy::StrongId<Tag, Rep> id, Context& context) const {
    return fmt::formatter<Rep>::format(id.value(), context);
  }
};
