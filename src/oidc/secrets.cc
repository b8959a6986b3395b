#include "oidc/secrets.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "oidc/url.h"

namespace divvy::oidc {

Result<std::string> random_text() {
  std::array<char, 32> random{};
  ssize_t got = 0;
  do {
    got = ::getrandom(random.data(), random.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(random.size())) {
    return err(ErrorCode::kUnavailable, "the kernel gives no random numbers: {}",
               std::strerror(errno));
  }
  std::string text = encode_base64url({random.data(), random.size()});
  OPENSSL_cleanse(random.data(), random.size());
  return text;
}

std::string hash_of(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return encode_base64url({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace divvy::oidc
