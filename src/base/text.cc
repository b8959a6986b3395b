#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>

namespace divvy {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

bool in_ranges(char32_t value, std::span<const Range> ranges) {
  return std::ranges::any_of(
      ranges, [value](Range range) { return range.first <= value && value <= range.last; });
}

// Characters that a reader cannot see, or that turn round what is written after them, so that a
// line says something else than its bytes.
constexpr Range kDeceptive[] = {
    {0x00AD, 0x00AD}, {0x034F, 0x034F}, {0x061C, 0x061C},   {0x115F, 0x1160},    {0x17B4, 0x17B5},
    {0x180B, 0x180F}, {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},    {0x3164, 0x3164},
    {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},    {0xFDD0, 0xFDEF},
    {0xE000, 0xF8FF}, {0xFFFE, 0xFFFF}, {0xE0000, 0xE0FFF}, {0xF0000, 0x10FFFF},
};

// Marks that are drawn over the character before them. The common blocks, not the whole of Unicode:
// host names, model names and job names need no more.
constexpr Range kCombining[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x20D0, 0x20FF}, {0xFE20, 0xFE2F},
};

// East Asian characters and pictures, which terminals draw two columns wide.
constexpr Range kWide[] = {
    {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE30, 0xFE6F},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
    {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD},
};

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The number of insertions, removals, replacements and swaps of neighbours that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

template <typename Text>
std::optional<std::string> closest(std::string_view word, std::span<const Text> candidates) {
  // Nobody mistypes a word this long, and the table grows with the product of the lengths.
  constexpr std::size_t kLongestWord = 64;
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const std::string wanted = to_lower(word);
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const Text& candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::size_t distance = edit_distance(wanted, to_lower(candidate));
    // One slip in three letters is a typing mistake; more is another word.
    const std::size_t allowed =
        std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3);
    // A word of one or two letters is within one edit of every other; only case may differ there.
    if (distance > (std::min(word.size(), candidate.size()) <= 2 ? 0 : allowed)) continue;
    if (!best || distance < best_distance) {
      best = std::string(candidate);
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string to_lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

std::optional<CodePoint> first_code_point(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return CodePoint{lead, 1};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return std::nullopt;
  char32_t value = lead & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return std::nullopt;
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kSmallest[size] || value > 0x10FFFF || surrogate) return std::nullopt;
  return CodePoint{value, size};
}

std::string escape_for_terminal(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  const auto out = std::back_inserter(result);
  while (!text.empty()) {
    const auto point = first_code_point(text);
    if (!point) {
      fmt::format_to(out, "\\x{:02x}", static_cast<std::uint8_t>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    const auto value = static_cast<std::uint32_t>(point->value);
    if (value == '\n') {
      result += "\\n";
    } else if (value == '\r') {
      result += "\\r";
    } else if (value == '\t') {
      result += "\\t";
    } else if (value == '\\') {
      result += "\\\\";
    } else if (value < 0x20 || value == 0x7F) {
      fmt::format_to(out, "\\x{:02x}", value);
    } else if ((value >= 0x80 && value < 0xA0) || in_ranges(point->value, kDeceptive)) {
      fmt::format_to(out, "\\u{{{:x}}}", value);
    } else {
      result += text.substr(0, point->size);
    }
    text.remove_prefix(point->size);
  }
  return result;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const auto point = first_code_point(text).value_or(CodePoint{U'?', 1});
    if (in_ranges(point.value, kWide)) {
      width += 2;
    } else if (!in_ranges(point.value, kCombining)) {
      width += 1;
    }
    text.remove_prefix(point.size);
  }
  return width;
}

std::optional<std::string> did_you_mean(std::string_view word,
                                        std::span<const std::string_view> candidates) {
  return closest(word, candidates);
}

std::optional<std::string> did_you_mean(std::string_view word,
                                        std::span<const std::string> candidates) {
  return closest(word, candidates);
}

std::string csv_cell(std::string_view text) {
  constexpr std::string_view kFormula = "=+-@\t";
  const bool formula = !text.empty() && kFormula.find(text[0]) != std::string_view::npos;
  if (!formula && text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = formula ? "\"'" : "\"";
  for (const char c : text) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

}  // namespace divvy
