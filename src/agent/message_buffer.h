// Messages in a stream of bytes: each is four bytes with its length (little-endian) and its text.
// Values, for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::agent {

// Longer ones are refused: a listing of ten thousand members has a few megabytes.
inline constexpr std::size_t kMaxMessage = std::size_t{64} << 20U;

void append_message(std::string& bytes, std::string_view text);

// Takes the first whole message out of what was received; nothing while it is not whole. An error:
// there is none, and never will be.
[[nodiscard]] Result<std::optional<std::string>> take_message(std::string& bytes);

}  // namespace divvy::agent
