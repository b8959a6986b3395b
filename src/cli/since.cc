#include "cli/since.h"

#include <array>
#include <ctime>

#include "base/text.h"
#include "model/seconds.h"

namespace divvy::cli {

Result<std::int64_t> parse_since(std::string_view text, WallTime now) {
  const std::string copy(text);
  for (const char* form : {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"}) {
    std::tm moment{};
    const char* end = ::strptime(copy.c_str(), form, &moment);
    if (end != nullptr && *end == '\0') return std::int64_t{1000} * ::timegm(&moment);
  }
  const auto ago = model::parse_seconds(text);
  if (!ago) {
    return err(ErrorCode::kInvalidArgument,
               "--since: \"{}\" is no time; write 30m, 2d or 2026-11-15T08:00:00Z",
               escape_for_terminal(text.substr(0, 60)));
  }
  return std::chrono::floor<std::chrono::milliseconds>((now - *ago).time_since_epoch()).count();
}

}  // namespace divvy::cli
