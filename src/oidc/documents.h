// What a provider of OpenID Connect says: its description of itself (OpenID Connect Discovery 1.0),
// its keys (RFC 7517), and the answers of its token and device endpoints (RFC 6749, RFC 8628). Read
// without belief: any bytes are safe to pass, sizes are bounded, and what is wrong is one sentence.
// Pure, callable from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oidc/url.h"

namespace divvy::oidc {

// Larger answers are not read.
inline constexpr std::size_t kLargestDocument = 256U << 10U;

struct ProviderDocument {
  Url authorization;
  std::string authorization_text;  // As it was written; a query is added to it
  Url token;
  std::optional<Url> device_authorization;  // Nothing: it knows no device grant
  Url keys;
  bool names_itself = false;  // RFC 9207: "iss" comes with an authorization
  bool takes_basic = true;    // The secret of a client in the header Authorization
};
// kInvalidArgument also where it is the description of another issuer, or asks for less than PKCE
// with S256.
[[nodiscard]] Result<ProviderDocument> read_provider(std::string_view text,
                                                     std::string_view issuer);

// A public key that signatures are checked with. Numbers are big-endian bytes.
struct Jwk {
  enum class Kind { kRsa, kP256 };
  Kind kind = Kind::kRsa;
  std::string id;         // Empty: it has none
  std::string algorithm;  // Empty: any that is for keys of its kind
  std::string modulus;
  std::string exponent;
  std::string x;
  std::string y;
};
// Those for signatures that we know; others (for encryption, of other kinds, too short) are left
// out. kInvalidArgument when it is no set of keys.
[[nodiscard]] Result<std::vector<Jwk>> read_keys(std::string_view text);

// The ID token in the answer of the token endpoint.
[[nodiscard]] Result<std::string> read_token_answer(std::string_view text);

// Why a token or device endpoint refused: "authorization_pending", "invalid_grant". Empty: it does
// not say. Only letters, digits, '_', '-' and '.': it goes into logs.
[[nodiscard]] std::string read_refusal(std::string_view text);

struct DeviceAnswer {
  std::string device_code;
  std::string user_code;
  std::string address;
  std::string complete_address;  // With the code in it; empty: there is none
  std::chrono::seconds expires_in;
  std::chrono::seconds interval{5};
};
// The addresses are https:// (or of this machine), and the code is what a person can type: somebody
// sees both on a terminal.
[[nodiscard]] Result<DeviceAnswer> read_device_answer(std::string_view text);

}  // namespace divvy::oidc
