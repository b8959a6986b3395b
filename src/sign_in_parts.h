// Signing in with a provider of OpenID Connect, put together from the settings. Composition for
// `divvyd`.
#pragma once

#include <filesystem>
#include <memory>

#include "api/sign_in.h"
#include "base/clock.h"
#include "base/result.h"
#include "oidc/provider.h"
#include "store/database.h"

namespace divvy {

struct SignInSettings {
  oidc::ProviderOptions provider;  // without the secret
  std::filesystem::path client_secret_file;
  api::SignInOptions options;
};

// Asks nobody yet: a provider that is down keeps no daemon from starting. Both outlive it.
[[nodiscard]] Result<std::unique_ptr<api::SignIn>> make_sign_in(const SignInSettings& settings,
                                                                store::Database& database,
                                                                const Clock& clock);

}  // namespace divvy
