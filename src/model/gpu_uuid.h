// The name that a GPU keeps for life: "GPU-" and 8-4-4-4-12 hexadecimal digits, as the driver
// prints it. A plain value that is always well formed.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::model {

class GpuUuid {
 public:
  // Upper-case digits are accepted and kept in lower case, so that equal GPUs compare equal.
  [[nodiscard]] static Result<GpuUuid> parse(std::string_view text);

  [[nodiscard]] const std::string& str() const { return text_; }

  friend auto operator<=>(const GpuUuid&, const GpuUuid&) = default;

 private:
  explicit GpuUuid(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

}  // namespace divvy::model

template <>
struct std::hash<divvy::model::GpuUuid> {
  std::size_t operator()(const divvy::model::GpuUuid& uuid) const noexcept {
    return std::hash<std::string>{}(uuid.str());
  }
};

template <>
struct fmt::formatter<divvy::model::GpuUuid> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const divvy::model::GpuUuid& uuid, Context& context) const {
    return fmt::formatter<std::string_view>::format(uuid.str(), context);
  }
};
