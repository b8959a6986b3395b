// What is made up for one sign-in: unguessable texts, and hashes of them. Callable from any thread.
// The library behind the hash (OpenSSL) stays inside secrets.cc.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::oidc {

// 256 random bits as 43 signs of base64url: a state, a nonce, the verifier of PKCE (RFC 7636).
// kUnavailable when the kernel has none.
[[nodiscard]] Result<std::string> random_text();

// SHA-256 as base64url: the challenge of a verifier (S256), and what secrets are kept as.
[[nodiscard]] std::string hash_of(std::string_view text);

}  // namespace divvy::oidc
