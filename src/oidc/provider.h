// A provider of OpenID Connect, as a client of it: finds out where its endpoints are, trades codes
// for ID tokens (authorization code with PKCE; device grant), and checks those with its keys.
//
// Callable from many threads at once. A function that says so asks the provider, on the thread of
// its caller and with no lock held, for ten seconds at most beside the resolver's time; so many
// threads may do that at one time, and the next one gets kUnavailable.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/http.h"
#include "oidc/documents.h"
#include "oidc/id_token.h"

namespace divvy::oidc {

struct ProviderOptions {
  std::string issuer;
  std::string client_id;
  std::string client_secret;          // Empty: a public client
  std::vector<std::string> scopes;    // Beside "openid"
  std::filesystem::path authorities;  // A PEM file; empty: those of this machine
  std::string user_claim = "preferred_username";
  std::string groups_claim = "groups";
  std::size_t most_at_once = 8;
};

class Provider {
 public:
  // Asks nobody yet. `clock` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<Provider>> create(ProviderOptions options,
                                                                const Clock& clock);

  // Where a browser goes for an authorization code. Asks the provider.
  struct Authorization {
    std::string redirect;  // Where the code is to come back to
    std::string state;
    std::string nonce;
    std::string verifier;  // Of PKCE; its hash is in the address
  };
  [[nodiscard]] Result<std::string> authorization_address(const Authorization& begun);
  // RFC 9207: whether an authorization that names this issuer, or none, is this provider's.
  [[nodiscard]] Status check_issuer(const std::optional<std::string>& named);

  // An ID token, unchecked. Asks the provider.
  [[nodiscard]] Result<std::string> redeem_code(std::string_view code, std::string_view redirect,
                                                std::string_view verifier);

  // Asks the provider. kUnsupported: it knows no device grant.
  [[nodiscard]] Result<DeviceAnswer> begin_device();
  // What became of it. Asks the provider.
  struct DeviceState {
    std::optional<std::string> id_token;  // unchecked; nothing: the person is not done
    bool slow_down = false;
  };
  [[nodiscard]] Result<DeviceState> ask_device(std::string_view device_code);

  // Whom the token is about, once it was checked. May ask the provider for keys that are new.
  struct Occasion {
    std::optional<std::string> nonce;
    WallTime began;
  };
  [[nodiscard]] Result<Claims> verify(std::string_view id_token, const Occasion& occasion);

  [[nodiscard]] const ProviderOptions& options() const { return options_; }

 private:
  using Document = std::shared_ptr<const ProviderDocument>;
  using Keys = std::shared_ptr<const std::vector<Jwk>>;

  Provider(ProviderOptions options, Url issuer, const Clock& clock)
      : options_(std::move(options)), issuer_(std::move(issuer)), clock_(clock) {}

  [[nodiscard]] Result<net::HttpResponse> ask(const Url& url, const std::string* form,
                                              bool with_secret, bool takes_basic);
  [[nodiscard]] Result<std::string> fetch(const Url& url, std::string_view what);
  [[nodiscard]] Result<Document> document();
  [[nodiscard]] Result<Keys> keys_for(const Jwt& token);
  // A form of ours at an endpoint that wants to know which client asks.
  [[nodiscard]] Result<net::HttpResponse> submit(const Url& url, const ProviderDocument& document,
                                                 FormFields fields);

  const ProviderOptions options_;
  const Url issuer_;
  const Clock& clock_;
  std::atomic<std::size_t> asking_{0};

  std::mutex mutex_;  // of what follows; never held while the provider is asked
  Document document_;
  TimePoint document_at_;
  Keys keys_;
  TimePoint keys_at_;
};

}  // namespace divvy::oidc
