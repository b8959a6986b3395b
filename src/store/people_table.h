// People and their tokens. A view of a connection, made where it is used and on its thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/person.h"
#include "store/connection.h"

namespace divvy::store {

// What may be shown of a token.
struct TokenRecord {
  std::string id;
  std::string user;
  std::string label;
  WallTime created;
  std::optional<WallTime> expires;
  std::optional<WallTime> last_used;
  std::optional<WallTime> revoked;
  friend bool operator==(const TokenRecord&, const TokenRecord&) = default;
};

struct NewToken {
  TokenRecord record;
  std::string text;  // For its owner, now and never again
};

class PeopleTable {
 public:
  explicit PeopleTable(Connection& connection) : connection_(connection) {}

  // kAlreadyExists when the name or the uid is taken.
  [[nodiscard]] Status add(const model::Person& person);
  // Role, uid and whether they are disabled. kNotFound when there is nobody of that name.
  [[nodiscard]] Status change(const model::Person& person);
  // Their tokens and secrets go with them; their jobs stay.
  [[nodiscard]] Status remove(std::string_view name);
  [[nodiscard]] Result<std::optional<model::Person>> find(std::string_view name);
  [[nodiscard]] Result<std::optional<model::Person>> find_uid(uid_t uid);
  [[nodiscard]] Result<std::vector<model::Person>> list();

  [[nodiscard]] Result<NewToken> add_token(std::string_view user, std::string_view label,
                                           WallTime now, std::optional<WallTime> expires);
  // Those of one person, or all; oldest first, also those that are revoked or have expired.
  [[nodiscard]] Result<std::vector<TokenRecord>> tokens(const std::optional<std::string>& user);
  [[nodiscard]] Status revoke_token(std::string_view id, WallTime now);

  // Whose token this is. kPermissionDenied, always with the same words, for one that is wrong,
  // expired, revoked or of a disabled person: who guesses is not told which.
  struct Owner {
    model::Person person;
    TokenRecord token;
  };
  [[nodiscard]] Result<Owner> owner_of(std::string_view token_text, WallTime now);
  // Not more than once a minute is worth a write: see is_stale().
  [[nodiscard]] Status token_used(std::string_view id, WallTime now);
  [[nodiscard]] static bool is_stale(const TokenRecord& token, WallTime now);

 private:
  [[nodiscard]] Result<std::optional<model::Person>> read_person(Statement& query);

  Connection& connection_;
};

}  // namespace divvy::store
