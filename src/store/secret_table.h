// Secrets of users, sealed (store/secret_box.h). Nothing here can open them. A view of a
// connection.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

// What may be shown of a secret.
struct SecretRecord {
  std::string name;
  WallTime changed;
  friend bool operator==(const SecretRecord&, const SecretRecord&) = default;
};

class SecretTable {
 public:
  explicit SecretTable(Connection& connection) : connection_(connection) {}

  // Instead of the one of that name.
  [[nodiscard]] Status put(std::string_view user, const SecretRecord& record,
                           std::string_view sealed);
  // Whether there was one.
  [[nodiscard]] Result<bool> remove(std::string_view user, std::string_view name);
  // By name.
  [[nodiscard]] Result<std::vector<SecretRecord>> list(std::string_view user);
  [[nodiscard]] Result<std::optional<std::string>> sealed(std::string_view user,
                                                          std::string_view name);

 private:
  Connection& connection_;
};

}  // namespace divvy::store
