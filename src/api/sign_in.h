// Sign-ins with a provider of OpenID Connect (decision 37): begins them, remembers for ten minutes
// what belongs to each, and makes of a verified ID token a token of Divvy's own, which is what
// everything else here knows. ID tokens come from the provider's token endpoint alone, never from
// whoever signs in.
//
// Callable from many threads at once. The provider is asked on the thread of the request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/sign_in_admission.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/http.h"
#include "net/rate_limit.h"
#include "oidc/pending.h"
#include "oidc/provider.h"
#include "store/database.h"
#include "store/people_table.h"

namespace divvy::api {

struct SignInOptions {
  std::string provider_name;  // For people; empty: the host of its issuer
  std::string console_url;    // Empty: no sign-in in browsers
  AdmissionRules rules;       // With the provider's issuer
  Duration token_time = std::chrono::hours(12);
};

class SignIn {
 public:
  // Both references outlive it. kInvalidArgument where the address of the console is none.
  [[nodiscard]] static Result<std::unique_ptr<SignIn>> create(
      std::unique_ptr<oidc::Provider> provider, SignInOptions options, store::Database& database,
      const Clock& clock);

  [[nodiscard]] const std::string& provider_name() const { return options_.provider_name; }
  [[nodiscard]] bool serves_browsers() const { return !options_.console_url.empty(); }

  // Authorization code with PKCE. What comes back is only good together with the secret, which goes
  // into a cookie of the browser that began: nobody signs somebody else's browser in.
  struct Browser {
    std::string address;
    std::string secret;
  };
  // kFailedPrecondition: the page is not at the console's address, where the cookie would not be.
  [[nodiscard]] Result<Browser> begin_browser(const net::HttpRequest& request,
                                              const net::Caller& caller);
  // What the provider sent the browser back with.
  struct Callback {
    std::string code;
    std::string state;
    std::optional<std::string> issuer;
    std::string error;   // Instead of a code
    std::string secret;  // Of the cookie
  };
  // kNotFound: no sign-in of this browser waits for it (any more); kCancelled: the person said no;
  // kPermissionDenied: they are not let in; anything else: the provider does not do its part.
  [[nodiscard]] Result<store::NewToken> finish_browser(const Callback& callback,
                                                       const net::Caller& caller);

  // Device grant (RFC 8628), on behalf of a command.
  struct Device {
    std::string login;  // A secret of the command
    oidc::DeviceAnswer answer;
  };
  [[nodiscard]] Result<Device> begin_device(const net::Caller& caller);
  struct DeviceState {
    std::optional<store::NewToken> token;  // Nothing: the person is not done
    std::chrono::seconds poll{5};
  };
  // kNotFound: there is no such sign-in (any more). Asks the provider no more often than it wants.
  [[nodiscard]] Result<DeviceState> finish_device(const std::string& login,
                                                  const net::Caller& caller);

  [[nodiscard]] std::size_t waiting() const { return browsers_.size() + devices_.size(); }

 private:
  struct BrowserEntry {
    std::string secret_hash;
    std::string nonce;
    std::string verifier;
    WallTime began;
  };
  struct DeviceEntry {
    std::string device_code;
    std::chrono::seconds interval{5};
    TimePoint ask_at;
    WallTime began;
  };
  // For the audit log.
  struct Visit {
    std::string_view action;
    std::string_view object;
    std::string_view label;  // Of the token
    Duration longest;        // That the token is good for
  };

  SignIn(std::unique_ptr<oidc::Provider> provider, SignInOptions options, store::Database& database,
         const Clock& clock);

  [[nodiscard]] std::string callback_url() const {
    return options_.console_url + "/v1/sign-in/callback";
  }
  [[nodiscard]] Result<store::NewToken> exchange(std::string_view id_token,
                                                 const oidc::Provider::Occasion& occasion,
                                                 const Visit& visit, const net::Caller& caller);
  // Tells the log, at most once a second for each caller, and gives it on.
  [[nodiscard]] Error refused(Error error, const net::Caller& caller, std::string_view user = {});

  const std::unique_ptr<oidc::Provider> provider_;
  const SignInOptions options_;
  store::Database& database_;
  const Clock& clock_;
  oidc::Pending<BrowserEntry> browsers_;  // By the hash of the state
  oidc::Pending<DeviceEntry> devices_;    // By the hash of the login
  oidc::Pending<bool> used_;              // By the hash of the ID token
  net::RateLimit refusals_{1};
};

}  // namespace divvy::api
