#include "agent/message_buffer.h"

namespace divvy::agent {
namespace {

constexpr std::size_t kHead = 4;

}  // namespace

void append_message(std::string& bytes, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  for (unsigned i = 0; i < kHead; ++i) bytes += static_cast<char>((size >> (8 * i)) & 0xFFU);
  bytes += text;
}

Result<std::optional<std::string>> take_message(std::string& bytes) {
  if (bytes.size() < kHead) return std::nullopt;
  std::uint32_t size = 0;
  for (unsigned i = 0; i < kHead; ++i) {
    size |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  if (size > kMaxMessage) {
    return err(ErrorCode::kDataLoss, "a message of {} bytes is longer than any may be", size);
  }
  if (bytes.size() < kHead + size) return std::nullopt;
  std::string text = bytes.substr(kHead, size);
  bytes.erase(0, kHead + size);
  return text;
}

}  // namespace divvy::agent
