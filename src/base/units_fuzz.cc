// Feeds any bytes to the parsers of quantities. What is read has to print and read back as itself;
// what is refused has to come with a caret that stands under the text it shows.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"

namespace {

void check_message(std::string_view message) {
  const auto lines = divvy::split(message, '\n');
  DIVVY_CHECK(lines.size() == 4, "{} lines: {}", lines.size(), message);
  const std::size_t caret = lines[2].find('^');
  DIVVY_CHECK(caret == lines[2].size() - 1 && caret >= 2, "caret line: {}", lines[2]);
  DIVVY_CHECK(caret <= lines[1].size(), "caret outside of: {}", lines[1]);
  DIVVY_CHECK(lines[3].starts_with("write it like "), "no example: {}", lines[3]);
  for (const char c : message) DIVVY_CHECK(c == '\n' || (c >= 0x20 && c < 0x7F), "raw byte {}", +c);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = divvy::parse_bytes(text)) {
    DIVVY_CHECK(divvy::parse_bytes(divvy::to_string(*bytes)) == *bytes, "{}", *bytes);
    DIVVY_CHECK(!divvy::humanize(*bytes).empty());
  } else {
    check_message(bytes.error().message);
  }
  if (const auto share = divvy::parse_share(text)) {
    DIVVY_CHECK(divvy::parse_share(divvy::to_string(*share)) == *share, "{}", *share);
  } else {
    check_message(share.error().message);
  }
  return 0;
}
