#include "sign_in_parts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/text.h"
#include "run/users.h"

namespace divvy {
namespace {

constexpr std::streamsize kLongestSecret = 4096;

// As a private key: whoever can read it is the daemon to the provider.
Result<std::string> read_secret(const std::filesystem::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) == 0 && (status.st_mode & 077U) != 0) {
    const bool given_to_us = status.st_uid == 0 && ::geteuid() != 0 &&
                             status.st_gid == ::getegid() && (status.st_mode & 037U) == 0;
    if (!given_to_us) {
      return err(ErrorCode::kPermissionDenied,
                 "{} is a secret that others may read; chmod 600 it, and take a new one if "
                 "somebody has",
                 file.string());
    }
  }
  std::ifstream stream(file);
  std::string secret(static_cast<std::size_t>(kLongestSecret), '\0');
  stream.read(secret.data(), kLongestSecret);
  secret.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  secret = std::string(trim(secret));
  if (secret.empty()) {
    return err(ErrorCode::kIo, "there is no secret in {} (sign_in.client_secret_file)",
               file.string());
  }
  return secret;
}

}  // namespace

Result<std::unique_ptr<api::SignIn>> make_sign_in(const SignInSettings& settings,
                                                  store::Database& database, const Clock& clock) {
  oidc::ProviderOptions provider_options = settings.provider;
  if (!settings.client_secret_file.empty()) {
    DIVVY_TRY(secret, read_secret(settings.client_secret_file));
    provider_options.client_secret = std::move(secret);
  }
  DIVVY_TRY(provider, oidc::Provider::create(std::move(provider_options), clock));
  api::SignInOptions options = settings.options;
  options.rules.is_machine_user = [](const std::string& name) {
    return run::find_user(name).has_value();
  };
  return api::SignIn::create(std::move(provider), std::move(options), database, clock);
}

}  // namespace divvy
