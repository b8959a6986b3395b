#include "oidc/id_token.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <memory>

#include "base/text.h"
#include "model/json_fields.h"

namespace divvy::oidc {
namespace {

namespace json = boost::json;
using model::JsonFields;
using model::Unread;

constexpr std::size_t kMostGroups = 1000;
constexpr std::size_t kLongestText = 255;
constexpr std::size_t kP256Half = 32;
// Far beyond any year that somebody means, and far inside of what WallTime can hold.
constexpr std::int64_t kLastSecond = 8'000'000'000;

template <typename T, auto free_it>
struct FreeBy {
  void operator()(T* pointer) const { free_it(pointer); }
};
template <typename T, auto free_it>
using Owned = std::unique_ptr<T, FreeBy<T, free_it>>;
using Number = Owned<BIGNUM, BN_free>;
using PublicKey = Owned<EVP_PKEY, EVP_PKEY_free>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Number number_from(std::string_view bytes) {
  return Number(BN_bin2bn(bytes_of(bytes), static_cast<int>(bytes.size()), nullptr));
}

// Null where OpenSSL does not take it: the point is not on the curve, for one.
PublicKey make_key(const char* kind, OSSL_PARAM_BLD* fields) {
  const Owned<OSSL_PARAM, OSSL_PARAM_free> params(OSSL_PARAM_BLD_to_param(fields));
  const Owned<EVP_PKEY_CTX, EVP_PKEY_CTX_free> context(
      EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr));
  EVP_PKEY* key = nullptr;
  if (params == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    return nullptr;
  }
  return PublicKey(key);
}

PublicKey public_key(const Jwk& key) {
  const Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free> fields(OSSL_PARAM_BLD_new());
  if (fields == nullptr) return nullptr;
  if (key.kind == Jwk::Kind::kRsa) {
    const Number modulus = number_from(key.modulus);
    const Number exponent = number_from(key.exponent);
    if (modulus == nullptr || exponent == nullptr || BN_is_odd(exponent.get()) == 0 ||
        BN_is_one(exponent.get()) != 0 ||
        OSSL_PARAM_BLD_push_BN(fields.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get()) != 1 ||
        OSSL_PARAM_BLD_push_BN(fields.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get()) != 1) {
      return nullptr;
    }
    return make_key("RSA", fields.get());
  }
  const std::string point = "\x04" + key.x + key.y;
  if (OSSL_PARAM_BLD_push_utf8_string(fields.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) !=
          1 ||
      OSSL_PARAM_BLD_push_octet_string(fields.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return nullptr;
  }
  return make_key("EC", fields.get());
}

// Of ES256: two numbers behind each other, which OpenSSL wants as DER. Empty: they are none.
std::string der_signature(std::string_view raw) {
  if (raw.size() != 2 * kP256Half) return {};
  const Owned<ECDSA_SIG, ECDSA_SIG_free> pair(ECDSA_SIG_new());
  Number r = number_from(raw.substr(0, kP256Half));
  Number s = number_from(raw.substr(kP256Half));
  if (pair == nullptr || r == nullptr || s == nullptr) return {};
  // It refuses nothing but null, and owns both from here on.
  if (ECDSA_SIG_set0(pair.get(), r.release(), s.release()) != 1) return {};
  unsigned char* written = nullptr;
  const int size = i2d_ECDSA_SIG(pair.get(), &written);
  if (size <= 0) return {};
  std::string der(reinterpret_cast<char*>(written), static_cast<std::size_t>(size));
  OPENSSL_free(written);
  return der;
}

bool has_signed(const Jwk& jwk, const Jwt& token) {
  const PublicKey key = public_key(jwk);
  const Owned<EVP_MD_CTX, EVP_MD_CTX_free> context(EVP_MD_CTX_new());
  if (key == nullptr || context == nullptr) return false;
  EVP_PKEY_CTX* settings = nullptr;  // The context's own
  if (EVP_DigestVerifyInit(context.get(), &settings, EVP_sha256(), nullptr, key.get()) != 1) {
    return false;
  }
  if (token.algorithm == "PS256" &&
      (EVP_PKEY_CTX_set_rsa_padding(settings, RSA_PKCS1_PSS_PADDING) != 1 ||
       EVP_PKEY_CTX_set_rsa_pss_saltlen(settings, RSA_PSS_SALTLEN_DIGEST) != 1)) {
    return false;
  }
  const std::string signature =
      token.algorithm == "ES256" ? der_signature(token.signature) : token.signature;
  return EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(),
                          bytes_of(token.signed_part), token.signed_part.size()) == 1;
}

bool is_for(const Jwk& key, const Jwt& token) {
  const bool is_kind =
      key.kind == (token.algorithm == "ES256" ? Jwk::Kind::kP256 : Jwk::Kind::kRsa);
  return is_kind && (token.key_id.empty() || key.id == token.key_id) &&
         (key.algorithm.empty() || key.algorithm == token.algorithm);
}

// Seconds since 1970, which may have a fraction.
struct NumericDate {
  std::int64_t seconds = 0;
  [[nodiscard]] WallTime time() const { return WallTime(std::chrono::seconds(seconds)); }
};

model::Refusal take(const json::value& value, NumericDate& into) {
  double seconds = -1;
  if (value.is_number()) seconds = value.to_number<double>();
  if (!(seconds >= 0 && seconds < static_cast<double>(kLastSecond))) {
    return "this has to be a time, in seconds since 1970";
  }
  into.seconds = static_cast<std::int64_t>(seconds);
  return {};
}

// One, or a list of them.
struct Audience {
  std::vector<std::string> names;
};

model::Refusal take(const json::value& value, Audience& into) {
  if (value.is_string()) {
    into.names.emplace_back(value.get_string());
    return {};
  }
  const json::array* const items = value.if_array();
  if (items == nullptr || items->empty()) return "this has to be text or a list of texts";
  into.names.reserve(items->size());
  for (const json::value& item : *items) {
    if (model::Refusal refusal = model::take(item, into.names.emplace_back())) return refusal;
  }
  return {};
}

struct RawClaims {
  std::string issuer;
  Audience audience;
  std::string authorized_party;
  std::string nonce;
  std::string type;
  NumericDate expires;
  NumericDate issued;
  std::optional<NumericDate> not_before;
  bool mail_is_verified = false;
};

tl::unexpected<Error> denied(std::string_view why) {
  return err(ErrorCode::kPermissionDenied, "the ID token is refused: {}", why);
}

Status check_audience(const RawClaims& raw, std::string_view client_id) {
  const auto& names = raw.audience.names;
  if (std::ranges::find(names, client_id) == names.end()) {
    return denied("it is for another client (aud)");
  }
  if (names.size() > 1 && raw.authorized_party.empty()) {
    return denied("it is for several clients and does not say for which it was made (azp)");
  }
  if (!raw.authorized_party.empty() && raw.authorized_party != client_id) {
    return denied("it was made for another client (azp)");
  }
  return {};
}

Status check_times(const RawClaims& raw, const Expected& expected) {
  if (raw.expires.time() + kClockLeeway <= expected.now) return denied("it has expired (exp)");
  if (raw.issued.time() > expected.now + kClockLeeway) {
    return denied("it was issued in the future (iat); look at the clocks of both machines");
  }
  if (raw.not_before && raw.not_before->time() > expected.now + kClockLeeway) {
    return denied("it is not valid yet (nbf); look at the clocks of both machines");
  }
  if (expected.not_issued_before &&
      raw.issued.time() + kClockLeeway < *expected.not_issued_before) {
    return denied("it was issued before this sign-in began (iat)");
  }
  return {};
}

}  // namespace

Result<Jwt> read_jwt(std::string_view text) {
  const auto refuse = [](std::string_view why) {
    return err(ErrorCode::kInvalidArgument, "the ID token is refused: {}", why);
  };
  if (text.size() > kLargestToken) return refuse("it is too large");
  const auto parts = split(text, '.');
  if (parts.size() != 3) return refuse("it has not three parts");
  const auto header = decode_base64url(parts[0]);
  auto claims = decode_base64url(parts[1]);
  auto signature = decode_base64url(parts[2]);
  if (!header || !claims || !signature) return refuse("its parts are no base64url");
  const auto document = model::parse_json(*header);
  if (!document) return refuse("its header is no JSON");
  Jwt token;
  std::string type;
  JsonFields fields(*document, Unread::kLeft);
  fields.need("alg", token.algorithm);
  fields.read("kid", token.key_id);
  fields.read("typ", type);
  // What we would have to understand to be right about it.
  if (fields.has("crit")) fields.refuse("crit", "no extensions are known here");
  if (const Status read = fields.finish(); !read) return refuse(read.error().message);
  if (!type.empty() && to_lower(type) != "jwt") return refuse("it is another kind of token (typ)");
  constexpr std::array<std::string_view, 3> kAlgorithms{"RS256", "PS256", "ES256"};
  if (std::ranges::find(kAlgorithms, token.algorithm) == kAlgorithms.end()) {
    return err(ErrorCode::kUnsupported,
               "the ID token is refused: it is signed with {}; RS256, PS256 and ES256 are taken",
               escape_for_terminal(token.algorithm.substr(0, 20)));
  }
  token.signed_part = text.substr(0, parts[0].size() + 1 + parts[1].size());
  token.signature = *std::move(signature);
  token.claims = *std::move(claims);
  return token;
}

bool has_key_for(const Jwt& token, std::span<const Jwk> keys) {
  return std::ranges::any_of(keys, [&](const Jwk& key) { return is_for(key, token); });
}

Status check_signature(const Jwt& token, std::span<const Jwk> keys) {
  const bool found = std::ranges::any_of(
      keys, [&](const Jwk& key) { return is_for(key, token) && has_signed(key, token); });
  if (!found) return denied("no key of the provider has signed it");
  return {};
}

Result<Claims> check_claims(const Jwt& token, const Expected& expected) {
  const auto document = model::parse_json(token.claims);
  if (!document) return denied("its claims are no JSON");
  RawClaims raw;
  Claims claims;
  JsonFields fields(*document, Unread::kLeft);
  fields.need("iss", raw.issuer);
  fields.need("sub", claims.subject);
  fields.need("aud", raw.audience);
  fields.need("exp", raw.expires);
  fields.need("iat", raw.issued);
  fields.read("nbf", raw.not_before);
  fields.read("azp", raw.authorized_party);
  fields.read("nonce", raw.nonce);
  fields.read(expected.user_claim, claims.user);
  if (expected.user_claim == "email") {
    fields.read("email_verified", raw.mail_is_verified);
    claims.user_is_verified = raw.mail_is_verified;
  }
  if (!expected.groups_claim.empty()) {
    fields.read_list(expected.groups_claim, [&](const json::value& item, const std::string& place) {
      if (claims.groups.size() >= kMostGroups) return fields.refuse(place, "there are too many");
      if (const auto refusal = model::take(item, claims.groups.emplace_back())) {
        fields.refuse(place, *refusal);
      }
    });
  }
  if (const Status read = fields.finish(); !read) return denied(read.error().message);
  if (raw.issuer != expected.issuer) return denied("it is of another provider (iss)");
  DIVVY_RETURN_IF_ERROR(check_audience(raw, expected.client_id));
  DIVVY_RETURN_IF_ERROR(check_times(raw, expected));
  if (expected.nonce && raw.nonce != *expected.nonce) {
    return denied("it is not of this sign-in (nonce)");
  }
  const bool is_subject =
      !claims.subject.empty() && claims.subject.size() <= kLongestText &&
      std::ranges::all_of(claims.subject, [](char c) { return c >= ' ' && c < 0x7f; });
  if (!is_subject) return denied("it names no account (sub)");
  if (claims.user.size() > kLongestText) return denied("it names the user in too many letters");
  claims.issued = raw.issued.time();
  claims.expires = raw.expires.time();
  return claims;
}

}  // namespace divvy::oidc
