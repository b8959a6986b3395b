#include "oidc/provider.h"

#include <algorithm>

#include "base/text.h"
#include "oidc/secrets.h"

namespace divvy::oidc {
namespace {

constexpr std::chrono::seconds kPatience{10};
// What the provider said of itself, and its keys, are asked for again after so long: a key that it
// took back is believed for no longer.
constexpr std::chrono::hours kFresh{1};
// Whoever sends tokens with made-up keys has the provider asked no more often.
constexpr std::chrono::minutes kBetweenLooks{1};

// While it lives, a place among those who ask at the same time.
class Place {
 public:
  Place(std::atomic<std::size_t>& taken, std::size_t most) : taken_(taken) {
    has_ = taken_.fetch_add(1) < most;
  }
  ~Place() { taken_.fetch_sub(1); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  explicit operator bool() const { return has_; }

 private:
  std::atomic<std::size_t>& taken_;
  bool has_ = false;
};

std::string scope_of(const std::vector<std::string>& scopes) {
  std::string scope = "openid";
  for (const std::string& one : scopes) {
    if (one != "openid") scope += " " + one;
  }
  return scope;
}

Error unexpected(std::string_view what, const net::HttpResponse& answer) {
  const std::string reason = read_refusal(answer.body);
  return {ErrorCode::kUnavailable, fmt::format("the provider refuses {} (status {}{}{})", what,
                                               answer.status, reason.empty() ? "" : ", ", reason)};
}

}  // namespace

Result<std::unique_ptr<Provider>> Provider::create(ProviderOptions options, const Clock& clock) {
  auto issuer = Url::parse(options.issuer);
  if (!issuer) return err(with_context(std::move(issuer).error(), "sign_in.issuer"));
  if (!issuer->query.empty()) {
    return err(ErrorCode::kInvalidArgument, "sign_in.issuer: an issuer has no query");
  }
  if (options.client_id.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "sign_in.client_id: name the client that the provider knows this daemon as");
  }
  return std::unique_ptr<Provider>(new Provider(std::move(options), *std::move(issuer), clock));
}

Result<net::HttpResponse> Provider::ask(const Url& url, const std::string* form, bool with_secret,
                                        bool takes_basic) {
  const Place place(asking_, options_.most_at_once);
  if (!place) {
    return err(ErrorCode::kUnavailable, "the provider is slow to answer others; try again soon");
  }
  net::HttpTarget target{.socket = {}, .network = url.address};
  if (url.secure) target.tls = net::TlsTrust{.authorities = options_.authorities, .name = {}};
  target.server = "provider";
  target.largest_answer = kLargestDocument;
  net::HttpRequest request{
      .method = form == nullptr ? "GET" : "POST", .path = url.path, .query = url.query, .body = {}};
  request.headers["host"] = url.host;
  request.headers["accept"] = "application/json";
  request.headers["user-agent"] = "divvyd";
  if (form != nullptr) {
    request.headers["content-type"] = "application/x-www-form-urlencoded";
    request.body = *form;
  }
  // RFC 6749, section 2.3.1.
  if (with_secret && takes_basic) {
    request.headers["authorization"] =
        "Basic " + encode_base64(fmt::format("{}:{}", percent_encode(options_.client_id),
                                             percent_encode(options_.client_secret)));
  }
  auto answer = net::http_request(target, request, kPatience);
  // Unknown to the resolver, or not who it says: to whoever signs in all of that is one thing.
  if (!answer && answer.error().code != ErrorCode::kTimeout) {
    return err(ErrorCode::kUnavailable, "{}", answer.error().message);
  }
  return answer;
}

Result<std::string> Provider::fetch(const Url& url, std::string_view what) {
  DIVVY_TRY(answer, ask(url, nullptr, false, false));
  if (answer.status != 200) {
    return err(ErrorCode::kUnavailable, "the provider does not give {}: status {}", what,
               answer.status);
  }
  return std::move(answer.body);
}

Result<Provider::Document> Provider::document() {
  {
    const std::lock_guard lock(mutex_);
    if (document_ != nullptr && clock_.now() - document_at_ < kFresh) return document_;
  }
  Url url = issuer_;
  url.path = (url.path == "/" ? std::string() : url.path);
  while (url.path.ends_with('/')) url.path.pop_back();
  url.path += "/.well-known/openid-configuration";
  const TimePoint asked = clock_.now();
  DIVVY_TRY(text, fetch(url, "a description of itself"));
  DIVVY_TRY(read, read_provider(text, options_.issuer));
  auto made = std::make_shared<const ProviderDocument>(std::move(read));
  const std::lock_guard lock(mutex_);
  document_ = made;
  document_at_ = asked;
  return made;
}

Result<Provider::Keys> Provider::keys_for(const Jwt& token) {
  {
    const std::lock_guard lock(mutex_);
    const Duration age = clock_.now() - keys_at_;
    const bool usable = keys_ != nullptr && age < kFresh;
    if (usable && (age < kBetweenLooks || has_key_for(token, *keys_))) return keys_;
  }
  const TimePoint asked = clock_.now();
  DIVVY_TRY(known, document());
  DIVVY_TRY(text, fetch(known->keys, "its keys"));
  DIVVY_TRY(read, read_keys(text));
  auto made = std::make_shared<const std::vector<Jwk>>(std::move(read));
  const std::lock_guard lock(mutex_);
  keys_ = made;
  keys_at_ = asked;
  return made;
}

Result<net::HttpResponse> Provider::submit(const Url& url, const ProviderDocument& document,
                                           FormFields fields) {
  const bool has_secret = !options_.client_secret.empty();
  if (!has_secret || !document.takes_basic) fields.emplace_back("client_id", options_.client_id);
  if (has_secret && !document.takes_basic) {
    fields.emplace_back("client_secret", options_.client_secret);
  }
  const std::string form = write_form(fields);
  return ask(url, &form, has_secret, document.takes_basic);
}

Result<std::string> Provider::authorization_address(const Authorization& begun) {
  DIVVY_TRY(known, document());
  const std::string& address = known->authorization_text;
  return address + (known->authorization.query.empty() ? "?" : "&") +
         write_form({{"response_type", "code"},
                     {"client_id", options_.client_id},
                     {"redirect_uri", begun.redirect},
                     {"scope", scope_of(options_.scopes)},
                     {"state", begun.state},
                     {"nonce", begun.nonce},
                     {"code_challenge", hash_of(begun.verifier)},
                     {"code_challenge_method", "S256"}});
}

Status Provider::check_issuer(const std::optional<std::string>& named) {
  if (named) {
    if (*named == options_.issuer) return {};
    return err(ErrorCode::kPermissionDenied, "the authorization is another provider's (iss)");
  }
  DIVVY_TRY(known, document());
  if (!known->names_itself) return {};
  return err(ErrorCode::kPermissionDenied, "the authorization does not say whose it is (iss)");
}

Result<std::string> Provider::redeem_code(std::string_view code, std::string_view redirect,
                                          std::string_view verifier) {
  DIVVY_TRY(known, document());
  DIVVY_TRY(answer, submit(known->token, *known,
                           {{"grant_type", "authorization_code"},
                            {"code", std::string(code)},
                            {"redirect_uri", std::string(redirect)},
                            {"code_verifier", std::string(verifier)}}));
  if (answer.status != 200) return err(unexpected("the authorization code", answer));
  return read_token_answer(answer.body);
}

Result<DeviceAnswer> Provider::begin_device() {
  DIVVY_TRY(known, document());
  if (!known->device_authorization) {
    return err(ErrorCode::kUnsupported,
               "the provider knows no device grant; sign in with a browser at the console and make "
               "a token there");
  }
  DIVVY_TRY(answer,
            submit(*known->device_authorization, *known, {{"scope", scope_of(options_.scopes)}}));
  if (answer.status != 200) return err(unexpected("to begin a sign-in", answer));
  return read_device_answer(answer.body);
}

Result<Provider::DeviceState> Provider::ask_device(std::string_view device_code) {
  DIVVY_TRY(known, document());
  DIVVY_TRY(answer, submit(known->token, *known,
                           {{"grant_type", "urn:ietf:params:oauth:grant-type:device_code"},
                            {"device_code", std::string(device_code)}}));
  DeviceState state;
  if (answer.status == 200) {
    DIVVY_TRY(token, read_token_answer(answer.body));
    state.id_token = std::move(token);
    return state;
  }
  const std::string reason = read_refusal(answer.body);
  state.slow_down = reason == "slow_down";
  if (state.slow_down || reason == "authorization_pending") return state;
  if (reason == "access_denied") {
    return err(ErrorCode::kPermissionDenied, "the sign-in was refused at the provider");
  }
  if (reason == "expired_token") {
    return err(ErrorCode::kNotFound, "the code has expired; begin again");
  }
  return err(unexpected("the device code", answer));
}

Result<Claims> Provider::verify(std::string_view id_token, const Occasion& occasion) {
  DIVVY_TRY(token, read_jwt(id_token));
  DIVVY_TRY(keys, keys_for(token));
  if (!check_signature(token, *keys)) {
    // A new key may be called as an old one was, or be called nothing.
    {
      const std::lock_guard lock(mutex_);
      if (keys_ == keys && clock_.now() - keys_at_ >= kBetweenLooks) keys_ = nullptr;
    }
    DIVVY_TRY(now_there, keys_for(token));
    DIVVY_RETURN_IF_ERROR(check_signature(token, *now_there));
  }
  return check_claims(token, {.issuer = options_.issuer,
                              .client_id = options_.client_id,
                              .user_claim = options_.user_claim,
                              .groups_claim = options_.groups_claim,
                              .nonce = occasion.nonce,
                              .not_issued_before = occasion.began,
                              .now = clock_.wall_now()});
}

}  // namespace divvy::oidc
