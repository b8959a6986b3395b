#include "oidc/documents.h"

#include <algorithm>
#include <boost/json.hpp>
#include <optional>

#include "base/text.h"
#include "model/json_fields.h"

namespace divvy::oidc {
namespace {

namespace json = boost::json;
using model::JsonFields;
using model::Unread;

constexpr std::size_t kMostKeys = 64;
constexpr std::size_t kLongestSecret = 4096;
// Of RSA: shorter ones are broken, longer ones only cost time.
constexpr std::size_t kShortestModulus = 2048 / 8;
constexpr std::size_t kLongestModulus = 8192 / 8;
constexpr std::size_t kP256Bytes = 32;

// The object in a text, for `read`.
template <typename Read>
Status read_object(std::string_view of, std::string_view text, const Read& read) {
  if (text.size() > kLargestDocument) {
    return err(ErrorCode::kInvalidArgument, "{} is larger than {} bytes", of, kLargestDocument);
  }
  auto document = model::parse_json(text);
  if (!document) return err(with_context(std::move(document).error(), of));
  JsonFields fields(*document, Unread::kLeft);
  read(fields);
  return with_context(fields.finish(), of);
}

// Values of a list of text; nothing where there is no such list.
bool lists(const std::vector<std::string>& values, std::string_view one) {
  return std::ranges::find(values, one) != values.end();
}

// Of a member of a key: base64url.
std::string number_of(JsonFields& fields, std::string_view name) {
  std::string text;
  fields.read(name, text);
  auto bytes = decode_base64url(text);
  return bytes ? *std::move(bytes) : std::string();
}

std::optional<Jwk> read_key(const json::value& value) {
  JsonFields fields(value, Unread::kLeft);
  Jwk key;
  std::string kind;
  std::string curve;
  std::string use;
  fields.read("kty", kind);
  fields.read("crv", curve);
  fields.read("use", use);
  fields.read("kid", key.id);
  fields.read("alg", key.algorithm);
  key.modulus = number_of(fields, "n");
  key.exponent = number_of(fields, "e");
  key.x = number_of(fields, "x");
  key.y = number_of(fields, "y");
  if (!fields.finish() || (!use.empty() && use != "sig")) return std::nullopt;
  if (kind == "RSA") {
    key.kind = Jwk::Kind::kRsa;
    const bool usable = key.modulus.size() >= kShortestModulus && key.modulus.front() != 0 &&
                        key.modulus.size() <= kLongestModulus && !key.exponent.empty() &&
                        key.exponent.size() <= 8;
    return usable ? std::optional(std::move(key)) : std::nullopt;
  }
  key.kind = Jwk::Kind::kP256;
  const bool usable =
      kind == "EC" && curve == "P-256" && key.x.size() == kP256Bytes && key.y.size() == kP256Bytes;
  return usable ? std::optional(std::move(key)) : std::nullopt;
}

}  // namespace

Result<ProviderDocument> read_provider(std::string_view text, std::string_view issuer) {
  ProviderDocument document;
  DIVVY_RETURN_IF_ERROR(
      read_object("the description of the provider", text, [&](JsonFields& fields) {
        std::string named;
        fields.need("issuer", named);
        if (!named.empty() && named != issuer) {
          fields.refuse("issuer", fmt::format("this is {}, and not {}",
                                              escape_for_terminal(named.substr(0, 200)), issuer));
        }
        if (!fields.has("authorization_endpoint")) {
          fields.refuse("authorization_endpoint", "it is missing");
        }
        const auto authorization = fields.parsed("authorization_endpoint", Url::parse);
        fields.read("authorization_endpoint", document.authorization_text);
        if (!fields.has("token_endpoint")) fields.refuse("token_endpoint", "it is missing");
        const auto token = fields.parsed("token_endpoint", Url::parse);
        if (!fields.has("jwks_uri")) fields.refuse("jwks_uri", "it is missing");
        const auto keys = fields.parsed("jwks_uri", Url::parse);
        document.device_authorization = fields.parsed("device_authorization_endpoint", Url::parse);
        if (authorization) document.authorization = *authorization;
        if (token) document.token = *token;
        if (keys) document.keys = *keys;
        fields.read("authorization_response_iss_parameter_supported", document.names_itself);
        std::vector<std::string> challenges;
        fields.read("code_challenge_methods_supported", challenges);
        if (!challenges.empty() && !lists(challenges, "S256")) {
          fields.refuse("code_challenge_methods_supported", "S256 is not among them");
        }
        std::vector<std::string> methods;
        fields.read("token_endpoint_auth_methods_supported", methods);
        document.takes_basic = methods.empty() || lists(methods, "client_secret_basic");
      }));
  return document;
}

Result<std::vector<Jwk>> read_keys(std::string_view text) {
  std::vector<Jwk> keys;
  DIVVY_RETURN_IF_ERROR(read_object("the keys of the provider", text, [&](JsonFields& fields) {
    if (!fields.has("keys")) fields.refuse("keys", "it is missing");
    fields.read_list("keys", [&](const json::value& item, const std::string& place) {
      if (keys.size() >= kMostKeys) return fields.refuse(place, "there are too many keys");
      if (auto key = read_key(item)) keys.push_back(*std::move(key));
    });
  }));
  return keys;
}

Result<std::string> read_token_answer(std::string_view text) {
  std::string token;
  DIVVY_RETURN_IF_ERROR(read_object("the answer of the token endpoint", text,
                                    [&](JsonFields& fields) { fields.need("id_token", token); }));
  return token;
}

std::string read_refusal(std::string_view text) {
  std::string reason;
  const Status read =
      read_object("the refusal", text, [&](JsonFields& fields) { fields.read("error", reason); });
  const bool is_plain = std::ranges::all_of(reason, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  return read && is_plain && reason.size() <= 60 ? reason : std::string();
}

Result<DeviceAnswer> read_device_answer(std::string_view text) {
  DeviceAnswer answer;
  std::uint32_t expires = 0;
  std::uint32_t interval = 5;
  DIVVY_RETURN_IF_ERROR(
      read_object("the answer of the device endpoint", text, [&](JsonFields& fields) {
        fields.need("device_code", answer.device_code);
        fields.need("user_code", answer.user_code);
        fields.need("verification_uri", answer.address);
        fields.need("expires_in", expires);
        fields.read("verification_uri_complete", answer.complete_address);
        fields.read("interval", interval);
        const bool is_typed = std::ranges::all_of(
            answer.user_code, [](char c) { return c > ' ' && c < 0x7f && c != '\\'; });
        if (answer.user_code.empty() || answer.user_code.size() > 40 || !is_typed) {
          fields.refuse("user_code", "nobody could type this");
        }
        if (answer.device_code.empty() || answer.device_code.size() > kLongestSecret) {
          fields.refuse("device_code", "this is none");
        }
        for (const std::string* const address : {&answer.address, &answer.complete_address}) {
          if (address->empty()) continue;
          if (const auto url = Url::parse(*address); !url) {
            fields.refuse("verification_uri", url.error().message);
          }
        }
      }));
  answer.expires_in = std::chrono::seconds(std::clamp<std::uint32_t>(expires, 1, 3600));
  answer.interval = std::chrono::seconds(std::clamp<std::uint32_t>(interval, 1, 60));
  return answer;
}

}  // namespace divvy::oidc
