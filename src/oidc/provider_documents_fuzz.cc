// Whatever a provider answers is read within bounds, or refused with a sentence.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/base64.h"
#include "base/check.h"
#include "oidc/documents.h"

using namespace divvy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto document = oidc::read_provider(text, "https://id.example")) {
    DIVVY_CHECK(document->token.secure || document->token.is_loopback());
    DIVVY_CHECK(!document->authorization_text.empty());
  } else {
    DIVVY_CHECK(!document.error().message.empty());
  }
  if (const auto keys = oidc::read_keys(text)) {
    DIVVY_CHECK(keys->size() <= 64);
    for (const oidc::Jwk& key : *keys) DIVVY_CHECK(key.modulus.size() <= 1024);
  }
  (void)oidc::read_token_answer(text);
  for (const char c : oidc::read_refusal(text)) DIVVY_CHECK(c > ' ' && c < 0x7f);
  if (const auto device = oidc::read_device_answer(text)) {
    DIVVY_CHECK(device->user_code.size() <= 40 && device->expires_in <= std::chrono::hours(1));
    DIVVY_CHECK(oidc::Url::parse(device->address).has_value());
  }
  if (const auto url = oidc::Url::parse(text)) {
    DIVVY_CHECK(oidc::Url::parse(url->origin()).has_value());
  }
  if (const auto bytes = oidc::decode_base64url(text)) {
    DIVVY_CHECK(encode_base64url(*bytes) == text);
  }
  return 0;
}
