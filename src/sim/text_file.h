// Reads a text file that somebody handed in, plain or compressed with gzip, piece by piece and with
// bounds, so that a file that cannot be right is refused long before it fills the memory. Called by
// the readers of traces, from any thread; nothing is kept between calls.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::sim {

struct TextLimits {
  std::uint64_t file_bytes = std::uint64_t{1} << 30;  // After decompression.
  std::uint64_t line_bytes = std::uint64_t{1} << 20;
};

// Hands the text to `take` in pieces of at most 64 KiB, in order; an error of `take` ends the
// reading and is passed on. Refused with a sentence that names the file: what cannot be opened, a
// folder, damaged compression, more bytes than the limit (a plain file of that size is not read at
// all), and a NUL byte, which no text has.
[[nodiscard]] Status read_text(const std::string& path, const TextLimits& limits,
                               const std::function<Status(std::string_view)>& take);

// "512 MiB", "1 GiB" or "100 bytes": for sentences about limits.
[[nodiscard]] std::string describe_bytes(std::uint64_t bytes);

}  // namespace divvy::sim
