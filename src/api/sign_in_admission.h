// Who somebody is here whom a provider of OpenID Connect vouches for, and whether they are let in.
// Called inside of a change of the store.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/person.h"
#include "oidc/id_token.h"
#include "store/connection.h"

namespace divvy::api {

struct AdmissionRules {
  std::string issuer{};
  std::string user_domain{};  // Of names like ada@example.com; empty: those are refused
  std::vector<std::string> allowed_groups{};  // Empty: any
  std::vector<std::string> admin_groups{};    // Empty: a sign-in changes no role
  bool new_users = false;
  // Whom the machine itself knows: a provider makes nobody one of them.
  std::function<bool(const std::string& name)> is_machine_user{};
};

// The name that the claims give: one that model::check_name() takes. kPermissionDenied.
[[nodiscard]] Result<std::string> user_name_of(const oidc::Claims& claims,
                                               const AdmissionRules& rules);

// An account is bound to the user whose name it has at its first sign-in, and from then on known by
// its subject alone. kPermissionDenied with why it is not let in, in words for whoever signs in.
[[nodiscard]] Result<model::Person> admit(store::Connection& connection, const oidc::Claims& claims,
                                          const AdmissionRules& rules, WallTime now);

}  // namespace divvy::api
