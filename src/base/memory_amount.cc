#include "base/memory_amount.h"

#include "base/parse_error.h"
#include "base/text.h"

namespace divvy {

Result<Bytes> parse_memory(std::string_view text) {
  constexpr Bytes kFewest{1024};
  DIVVY_TRY(bytes, parse_bytes(text));
  const std::string_view typed = trim(text);
  const bool has_unit = typed.back() < '0' || typed.back() > '9';
  if (bytes == Bytes(0) || bytes >= kFewest || has_unit) return bytes;
  return err(parse_error({.text = text,
                          .position = text.size(),
                          .as = "an amount of memory",
                          .reason = fmt::format("the unit is missing; did you mean {}GiB?", typed),
                          .example = "write it like 10GiB, 512Mi or 1.5G"}));
}

}  // namespace divvy
