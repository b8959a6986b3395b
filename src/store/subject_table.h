// Which account of a provider of OpenID Connect signs in as whom. An account is known by its issuer
// and its subject, which the provider gives to nobody else. A view of a connection, made where it
// is used and on its thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

// In the place of an issuer: whom the kernel of this machine vouches for, by their uid, and of whom
// no admin has said who they are elsewhere.
inline constexpr std::string_view kThisMachine;

class SubjectTable {
 public:
  explicit SubjectTable(Connection& connection) : connection_(connection) {}

  // The user that this account signs in as.
  [[nodiscard]] Result<std::optional<std::string>> find(std::string_view issuer,
                                                        std::string_view subject);
  // The account of that issuer that signs in as this user.
  [[nodiscard]] Result<std::optional<std::string>> subject_of(std::string_view issuer,
                                                              std::string_view user);
  // kAlreadyExists where the account signs in as somebody, or another one as this user.
  [[nodiscard]] Status add(std::string_view issuer, std::string_view subject, std::string_view user,
                           WallTime at);
  // Nothing happens where there is none.
  [[nodiscard]] Status remove(std::string_view issuer, std::string_view user);

 private:
  Connection& connection_;
};

}  // namespace divvy::store
