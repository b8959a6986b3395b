#include "kube/base64.h"

#include <array>
#include <cstdint>

namespace divvy::kube {

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      three <<= 8U;
      if (at + i < bytes.size()) three |= static_cast<unsigned char>(bytes[at + i]);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const bool padding = at + i > bytes.size();
      text += padding ? '=' : kLetters[(three >> (18 - 6 * i)) & 63U];
    }
  }
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  static const std::array<int, 256> values = [] {
    std::array<int, 256> made{};
    made.fill(-1);
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (std::size_t i = 0; i < kDigits.size(); ++i) {
      made[static_cast<unsigned char>(kDigits[i])] = static_cast<int>(i);
    }
    return made;
  }();
  std::string decoded;
  unsigned bits = 0;
  int count = 0;
  bool ended = false;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == '=') {
      ended = true;
      continue;
    }
    const int value = values[static_cast<unsigned char>(c)];
    if (value < 0 || ended) return std::nullopt;
    bits = (bits << 6U) | static_cast<unsigned>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      decoded += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xffU);
    }
  }
  return decoded;
}

}  // namespace divvy::kube
