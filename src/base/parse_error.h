// The one shape in which Divvy answers text that it cannot read:
//
//   cannot read "10Gx" as an amount of memory: unknown unit "Gx"
//     10Gx
//       ^
//   write it like 10GiB, 512Mi or 1.5G
//
// Used by every parser of something a person typed. Pure, callable from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

struct ParseFailure {
  std::string_view text;  // Everything the person typed, raw.
  std::size_t position =
      0;  // Byte of `text` that is wrong; text.size() for "something is missing here".
  std::string_view as;       // "an amount of memory"
  std::string reason;        // "unknown unit \"Gx\"": already safe to show (see quote_typed)
  std::string_view example;  // "write it like 10GiB, 512Mi or 1.5G"
};

// Control characters, quotes and everything beyond ASCII are shown escaped, long text is cut to a
// window around the place; the caret stays under it.
[[nodiscard]] Error parse_error(ParseFailure failure, ErrorCode code = ErrorCode::kInvalidArgument);

// A piece of typed text, quoted, escaped and shortened, for use inside a reason.
[[nodiscard]] std::string quote_typed(std::string_view piece);

}  // namespace divvy
