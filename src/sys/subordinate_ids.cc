#include "sys/subordinate_ids.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>

#include "base/text.h"

namespace divvy::sys {
namespace {

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::vector<IdRange> parse_subordinate_ids(std::string_view text, std::string_view name,
                                           uid_t uid) {
  constexpr std::uint64_t kNobodys = std::numeric_limits<std::uint32_t>::max();
  const std::string by_number = fmt::to_string(uid);
  std::vector<IdRange> ranges;
  std::uint64_t total = 0;
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split(line, ':');
    if (words.size() != 3 || (words[0] != name && words[0] != by_number)) continue;
    const auto first = number(trim(words[1]));
    const auto count = number(trim(words[2]));
    if (!first || !count || *first == 0 || *count == 0) continue;
    total += *count;
    if (std::uint64_t{*first} + *count > kNobodys || total >= kNobodys) continue;
    ranges.push_back({*first, *count});
  }
  return ranges;
}

std::vector<IdRange> read_subordinate_ids(const std::filesystem::path& file, std::string_view name,
                                          uid_t uid) {
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  return parse_subordinate_ids(text, name, uid);
}

std::uint32_t count_of(const std::vector<IdRange>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), std::uint32_t{0},
                         [](std::uint32_t sum, const IdRange& range) { return sum + range.count; });
}

}  // namespace divvy::sys
