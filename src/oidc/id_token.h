// ID tokens (OpenID Connect Core 1.0, section 3.1.3.7), which are JSON Web Tokens (RFC 7519) in the
// compact form of RFC 7515: read, checked against the keys of the provider, and against what is
// expected of them. The library behind the signatures (OpenSSL) stays inside id_token.cc. Pure,
// callable from any thread; any bytes are safe to pass.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "oidc/documents.h"

namespace divvy::oidc {

inline constexpr std::size_t kLargestToken = 32U << 10U;
// So far may our clock and the provider's be apart.
inline constexpr std::chrono::seconds kClockLeeway{60};

// A token that could be read. Nothing in it is to be believed before check_signature().
struct Jwt {
  std::string algorithm;  // RS256, PS256 or ES256
  std::string key_id;     // Empty: it names none
  std::string signed_part;
  std::string signature;
  std::string claims;  // JSON
};
// kUnsupported for algorithms that we do not take: "none", those with a shared secret, and others.
[[nodiscard]] Result<Jwt> read_jwt(std::string_view text);

// Whether one of the keys may be the one that signed it.
[[nodiscard]] bool has_key_for(const Jwt& token, std::span<const Jwk> keys);
// kPermissionDenied: none of these keys has signed it.
[[nodiscard]] Status check_signature(const Jwt& token, std::span<const Jwk> keys);

// What the claims have to say.
struct Expected {
  std::string_view issuer;
  std::string_view client_id;
  std::string_view user_claim;                  // Names the user: "preferred_username"
  std::string_view groups_claim;                // Empty: groups are not read
  std::optional<std::string_view> nonce{};      // Nothing: the grant has none
  std::optional<WallTime> not_issued_before{};  // When this sign-in began
  WallTime now;
};

// Whom the provider vouches for.
struct Claims {
  std::string subject;           // Never given to somebody else by the same issuer
  std::string user;              // As the claim has it; empty: it is not there
  bool user_is_verified = true;  // False: an address of mail that the provider has not verified
  std::vector<std::string> groups;
  WallTime issued;
  WallTime expires;
};
// kPermissionDenied with what is wrong; nothing of the token is in the message but names of claims.
[[nodiscard]] Result<Claims> check_claims(const Jwt& token, const Expected& expected);

}  // namespace divvy::oidc
