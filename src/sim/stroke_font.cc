#include "sim/stroke_font.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.h"

namespace divvy::sim {
namespace {

// Lines are separated by spaces. A point is two digits to the base of 36, x and y; y goes up, and
// the letters stand on 6, small ones reach to g (16) and capitals to k (20). "~" in front bends the
// line around its inner points, "o" does so and closes it.
struct Glyph {
  char letter;
  std::uint8_t width;
  std::string_view lines;
};

constexpr auto kGlyphs = std::to_array<Glyph>({
    {'a', 9, "o06969g0g 9g96"},
    {'b', 9, "o06969g0g 0k06"},
    {'c', 8, "~8e8g0g068688"},
    {'d', 9, "o06969g0g 9k96"},
    {'e', 9, "0b9b ~9b9g0g068687"},
    {'f', 7, "~7k3k3g 3g36 0g7g"},
    {'g', 9, "o06969g0g 9g94 ~94900002"},
    {'h', 9, "0k06 ~0b0g9g9b 9b96"},
    {'i', 1, "0g06 0k0k"},
    {'j', 3, "3g33 ~333000 3k3k"},
    {'k', 8, "0k06 8g0a 3c86"},
    {'l', 1, "0k06"},
    {'m', 14, "0g06 ~0b0g7g7b 7b76 ~7b7gegeb ebe6"},
    {'n', 9, "0g06 ~0b0g9g9b 9b96"},
    {'o', 9, "o06969g0g"},
    {'p', 9, "o06969g0g 0g00"},
    {'q', 9, "o06969g0g 9g90"},
    {'r', 6, "0g06 ~0b0g6g"},
    {'s', 8, "~8e8g0g0b8b860608"},
    {'t', 7, "3k39 ~393676 0g7g"},
    {'u', 9, "0g0b ~0b06969b 9g96"},
    {'v', 8, "0g468g"},
    {'w', 12, "0g366g96cg"},
    {'x', 8, "0g86 068g"},
    {'y', 8, "0g46 8g20"},
    {'z', 8, "0g8g0686"},
    {'A', 10, "065ka6 2b8b"},
    {'B', 10, "0k06 0k5k ~5k9k9d5d 0d5d ~5dada656 5606"},
    {'C', 10, "~ahak0k06a6a9"},
    {'D', 11, "0k06 0k4k ~4kbkb646 4606"},
    {'E', 9, "9k0k0696 0d7d"},
    {'F', 9, "9k0k06 0d7d"},
    {'G', 11, "~bhbk0k06b6bc bc6c"},
    {'H', 10, "0k06 aka6 0dad"},
    {'I', 1, "0k06"},
    {'J', 6, "6k6a ~6a660609"},
    {'K', 9, "0k06 9k0c 3f96"},
    {'L', 8, "0k0686"},
    {'M', 12, "060k6ackc6"},
    {'N', 10, "060ka6ak"},
    {'O', 11, "o06b6bk0k"},
    {'P', 10, "060k5k ~5kakac5c 5c0c"},
    {'Q', 11, "o06b6bk0k 7ab5"},
    {'R', 10, "060k5k ~5kakac5c 5c0c 5ca6"},
    {'S', 9, "~9h9k0k0d9d960609"},
    {'T', 10, "0kak 5k56"},
    {'U', 10, "0k0b ~0b06a6ab abak"},
    {'V', 10, "0k56ak"},
    {'W', 14, "0k467ka6ek"},
    {'X', 10, "0ka6 06ak"},
    {'Y', 10, "0k5dak 5d56"},
    {'Z', 10, "0kak06a6"},
    {'0', 9, "o06969k0k"},
    {'1', 9, "2h5k56"},
    {'2', 9, "~0g0k9k9e06 0696"},
    {'3', 9, "~0h0k9k9d3d ~3d9d960609"},
    {'4', 9, "767k0a9a"},
    {'5', 9, "8k1k0d ~0d2f9f960608"},
    {'6', 9, "~8k0k0a o06969e0e"},
    {'7', 9, "0k9k36"},
    {'8', 9, "o1d8d8k1k o06969d0d"},
    {'9', 9, "~9g9616 o0c9c9k0k"},
    {'.', 1, "0606"},
    {',', 2, "1603"},
    {':', 1, "0606 0e0e"},
    {';', 2, "1603 1e1e"},
    {'%', 14, "o0d5d5k0k o96e6ed9d bk36"},
    {'/', 7, "047l"},
    {'+', 9, "0c9c 4g48"},
    {'-', 6, "0c6c"},
    {'=', 9, "0e9e 0a9a"},
    {'(', 3, "~3l0h0935"},
    {')', 3, "~0l3h3905"},
    {'[', 3, "3l0l0535"},
    {']', 3, "0l3l3505"},
    {'<', 8, "8g0b86"},
    {'>', 8, "0g8b06"},
    {'|', 1, "0l04"},
    {'_', 9, "0494"},
    {'\'', 1, "0k0h"},
    {'"', 4, "0k0h 4k4h"},
    {'!', 1, "0k0b 0606"},
    {'?', 8, "~0h0k8k8e4d4a 4646"},
    {'*', 6, "3j3d 0i6e 6i0e"},
    {'#', 11, "263k 869k 0gbg 0aba"},
    {'&', 10, "a64c ~4c1f1k7k7f4c ~4c0a0666 ~66a6ab"},
    {'~', 10, "~0a0e5ea9ad"},
    {'@', 12, "o39999f3f ~9f99c9ck0k06b6"},
    {'$', 9, "~9h9k0k0d9d960609 4m44"},
});

constexpr std::uint8_t kSpaceWidth = 6;
constexpr Glyph kMissing{'?', 8, "060k8k8606"};
constexpr double kGap = 4;        // between two letters
constexpr double kStandOn = 6;    // the y of the line that letters stand on
constexpr double kFullSize = 24;  // from the lowest to the highest, with a little air

double coordinate(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

// Cuts every corner: after a few times a line of corners is a curve.
std::vector<Position> bent(std::vector<Position> points, bool closed) {
  constexpr int kTimes = 4;
  for (int round = 0; round < kTimes; ++round) {
    std::vector<Position> finer;
    const std::size_t sides = closed ? points.size() : points.size() - 1;
    if (!closed) finer.push_back(points.front());
    for (std::size_t i = 0; i < sides; ++i) {
      const Position& a = points[i];
      const Position& b = points[(i + 1) % points.size()];
      finer.push_back({0.75 * a.x + 0.25 * b.x, 0.75 * a.y + 0.25 * b.y});
      finer.push_back({0.25 * a.x + 0.75 * b.x, 0.25 * a.y + 0.75 * b.y});
    }
    if (!closed) finer.push_back(points.back());
    points = std::move(finer);
  }
  if (closed) points.push_back(points.front());
  return points;
}

std::vector<Position> line_of(std::string_view text) {
  const bool open = text.starts_with('~');
  const bool closed = text.starts_with('o');
  if (open || closed) text.remove_prefix(1);
  std::vector<Position> points;
  for (; text.size() >= 2; text.remove_prefix(2)) {
    points.push_back({coordinate(text[0]), coordinate(text[1])});
  }
  return open || closed ? bent(std::move(points), closed) : points;
}

const Glyph& glyph_of(std::string_view letter) {
  const auto* const found = std::ranges::find_if(
      kGlyphs, [&](const Glyph& glyph) { return letter.size() == 1 && glyph.letter == letter[0]; });
  return found == kGlyphs.end() ? kMissing : *found;
}

}  // namespace

PenLines pen_lines(std::string_view text, double size) {
  const double scale = size / kFullSize;
  PenLines result;
  double x = 0;
  while (!text.empty()) {
    const auto point = first_code_point(text);
    const std::string_view letter = text.substr(0, point ? point->size : 1);
    text.remove_prefix(letter.size());
    if (letter == " ") {
      x += kSpaceWidth + kGap;
      continue;
    }
    const Glyph& glyph = glyph_of(letter);
    for (const std::string_view line : split(glyph.lines, ' ')) {
      std::vector<Position> points = line_of(line);
      for (Position& at : points) at = {(x + at.x) * scale, (kStandOn - at.y) * scale};
      result.lines.push_back(std::move(points));
    }
    x += glyph.width + kGap;
  }
  result.width = std::max(0.0, x - kGap) * scale;
  return result;
}

}  // namespace divvy::sim
