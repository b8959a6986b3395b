#include "store/token_secret.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace divvy::store {
namespace {

constexpr std::string_view kBeginning = "divvy_";
constexpr std::size_t kIdBytes = 8;
constexpr std::size_t kSecretBytes = 32;

std::string to_hex(const unsigned char* bytes, std::size_t size) {
  std::string text;
  text.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

bool is_hex(std::string_view text, std::size_t bytes) {
  return text.size() == 2 * bytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Result<TokenText> make_token_text() {
  std::array<unsigned char, kIdBytes + kSecretBytes> random{};
  ssize_t got = 0;
  do {
    got = ::getrandom(random.data(), random.size(), 0);
  } while (got < 0 && errno == EINTR);
  // Up to 256 bytes come whole or not at all.
  if (got != static_cast<ssize_t>(random.size())) {
    return err(ErrorCode::kUnavailable, "the kernel gives no random numbers: {}",
               std::strerror(errno));
  }
  TokenText token{to_hex(random.data(), kIdBytes), to_hex(random.data() + kIdBytes, kSecretBytes)};
  OPENSSL_cleanse(random.data(), random.size());
  return token;
}

std::string join_token(const TokenText& token) {
  return fmt::format("{}{}_{}", kBeginning, token.id, token.secret);
}

std::optional<TokenText> split_token(std::string_view text) {
  if (!text.starts_with(kBeginning)) return std::nullopt;
  text.remove_prefix(kBeginning.size());
  const std::size_t middle = text.find('_');
  if (middle == std::string_view::npos) return std::nullopt;
  const std::string_view id = text.substr(0, middle);
  const std::string_view secret = text.substr(middle + 1);
  if (!is_hex(id, kIdBytes) || !is_hex(secret, kSecretBytes)) return std::nullopt;
  return TokenText{std::string(id), std::string(secret)};
}

std::string hash_text(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return to_hex(digest.data(), digest.size());
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace divvy::store
