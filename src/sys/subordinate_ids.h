// Ranges of user and group numbers that root has given to a user for containers of their own:
// /etc/subuid and /etc/subgid (subuid(5)), lines of "USER:FIRST:COUNT". Callable from any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace divvy::sys {

struct IdRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend bool operator==(const IdRange&, const IdRange&) = default;
};

// Those of the user, who may stand there by name or by number, in the order of the lines. Lines
// that make no sense, and ranges with numbers that no user may have (0 and the last one), are left
// out.
[[nodiscard]] std::vector<IdRange> parse_subordinate_ids(std::string_view text,
                                                         std::string_view name, uid_t uid);
// Empty where the file cannot be read.
[[nodiscard]] std::vector<IdRange> read_subordinate_ids(const std::filesystem::path& file,
                                                        std::string_view name, uid_t uid);

[[nodiscard]] std::uint32_t count_of(const std::vector<IdRange>& ranges);

}  // namespace divvy::sys
