// Any text is an ID token that can be read, or one sentence about what is wrong; and none that
// nobody signed is taken.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "oidc/id_token.h"

using namespace divvy;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const oidc::Expected expected{.issuer = "https://id.example",
                                .client_id = "divvy",
                                .user_claim = "preferred_username",
                                .groups_claim = "groups",
                                .now = WallTime(std::chrono::seconds(1'800'000'000))};
  // RFC 7515, appendix A.3: whose private half everybody knows.
  static const auto kKeys = oidc::read_keys(
      R"({"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
      R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})");
  DIVVY_CHECK(kKeys.has_value() && kKeys->size() == 1);
  if (const auto token = oidc::read_jwt(text)) {
    DIVVY_CHECK(token->signed_part.size() < text.size());
    (void)oidc::check_signature(*token, *kKeys);
    const auto claims = oidc::check_claims(*token, expected);
    DIVVY_CHECK(claims.has_value() || !claims.error().message.empty());
  } else {
    DIVVY_CHECK(!token.error().message.empty());
  }
  // The claims alone, without the two codings around them.
  const oidc::Jwt bare{.algorithm = "ES256",
                       .key_id = {},
                       .signed_part = "a.b",
                       .signature = std::string(text),
                       .claims = std::string(text)};
  DIVVY_CHECK(!oidc::check_signature(bare, *kKeys).has_value());
  const auto claims = oidc::check_claims(bare, expected);
  DIVVY_CHECK(!claims || (!claims->subject.empty() && claims->groups.size() <= 1000));
  return 0;
}
