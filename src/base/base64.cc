#include "base/base64.h"

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

}  // namespace divvy
