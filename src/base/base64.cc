#include "base/base64.h"

#include <array>

#include <cstdint>

namespace divvy {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrlDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string encode(std::string_view bytes, std::string_view digits) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char byte : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(byte);
    for (count += 8; count >= 6; count -= 6) text += digits[(bits >> (count - 6)) & 63U];
  }
  if (count > 0) text += digits[(bits << (6 - count)) & 63U];
  return text;
}

}  // namespace

std::string encode_base64url(std::string_view bytes) { return encode(bytes, kUrlDigits); }

std::string encode_base64(std::string_view bytes) {
  std::string text = encode(bytes, kDigits);
  while (text.size() % 4 != 0) text += '=';
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  static const std::array<int, 256> values = [] {
    std::array<int, 256> made{};
    made.fill(-1);
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

}  // namespace divvy
