#include "store/people_table.h"

#include "base/text.h"
#include "model/name.h"
#include "store/token_secret.h"

namespace divvy::store {
namespace {

using model::Person;

#define DIVVY_PERSON_COLUMNS "name, role, uid, created, disabled"
#define DIVVY_TOKEN_COLUMNS "id, user, label, created, expires, last_used, revoked"

std::optional<std::int64_t> signed_uid(const std::optional<uid_t>& uid) {
  return uid ? std::optional<std::int64_t>(*uid) : std::nullopt;
}

TokenRecord read_token(const Statement& row) {
  return {row.text(0),          row.text(1),          row.text(2),         row.time(3),
          row.optional_time(4), row.optional_time(5), row.optional_time(6)};
}

tl::unexpected<Error> nobody(std::string_view name) {
  return err(ErrorCode::kNotFound, "there is no user {}", escape_for_terminal(name.substr(0, 128)));
}

tl::unexpected<Error> refused() {
  return err(ErrorCode::kPermissionDenied,
             "the token is not valid: wrong, expired or revoked; ask for a new one");
}

// What a token that does not exist is compared with, so that an unknown id costs what a wrong
// secret costs.
constexpr std::string_view kNoHash =
    "0000000000000000000000000000000000000000000000000000000000000000";

}  // namespace

Status PeopleTable::add(const Person& person) {
  DIVVY_RETURN_IF_ERROR(model::check_name("user", person.name));
  DIVVY_TRY(insertion, connection_.prepare("INSERT INTO users (" DIVVY_PERSON_COLUMNS
                                           ") VALUES (?, ?, ?, ?, ?)"));
  insertion.add(person.name).add(to_string(person.role)).add(signed_uid(person.uid));
  insertion.add(person.created).add(person.disabled);
  Status done = insertion.run();
  if (!done && done.error().code == ErrorCode::kAlreadyExists) {
    return err(ErrorCode::kAlreadyExists, "there is a user {}, or one with its uid, already",
               person.name);
  }
  return done;
}

Status PeopleTable::change(const Person& person) {
  DIVVY_TRY(update,
            connection_.prepare("UPDATE users SET role = ?, uid = ?, disabled = ? WHERE name = ?"));
  update.add(to_string(person.role)).add(signed_uid(person.uid)).add(person.disabled);
  const Status done = update.add(person.name).run();
  if (!done && done.error().code == ErrorCode::kAlreadyExists) {
    return err(ErrorCode::kAlreadyExists, "another user has the uid {}", *person.uid);
  }
  DIVVY_RETURN_IF_ERROR(done);
  if (connection_.changes() == 0) return nobody(person.name);
  return {};
}

Status PeopleTable::remove(std::string_view name) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM users WHERE name = ?"));
  DIVVY_RETURN_IF_ERROR(removal.add(name).run());
  if (connection_.changes() == 0) return nobody(name);
  // Of users whom the machine alone knows there may be secrets and no row above: no foreign key.
  DIVVY_TRY(secrets, connection_.prepare("DELETE FROM secrets WHERE user = ?"));
  return secrets.add(name).run();
}

Result<std::optional<Person>> PeopleTable::read_person(Statement& query) {
  DIVVY_TRY(row, query.step());
  if (!row) return std::nullopt;
  Person person;
  person.name = query.text(0);
  DIVVY_TRY(role, model::parse_role(query.text(1)));
  person.role = role;
  if (!query.is_null(2)) person.uid = static_cast<uid_t>(query.integer(2));
  person.created = query.time(3);
  person.disabled = query.integer(4) != 0;
  return person;
}

Result<std::optional<Person>> PeopleTable::find(std::string_view name) {
  DIVVY_TRY(query,
            connection_.prepare("SELECT " DIVVY_PERSON_COLUMNS " FROM users WHERE name = ?"));
  query.add(name);
  return read_person(query);
}

Result<std::optional<Person>> PeopleTable::find_uid(uid_t uid) {
  DIVVY_TRY(query, connection_.prepare("SELECT " DIVVY_PERSON_COLUMNS " FROM users WHERE uid = ?"));
  query.add(std::int64_t{uid});
  return read_person(query);
}

Result<std::vector<Person>> PeopleTable::list() {
  DIVVY_TRY(query, connection_.prepare("SELECT " DIVVY_PERSON_COLUMNS " FROM users ORDER BY name"));
  std::vector<Person> people;
  for (;;) {
    DIVVY_TRY(person, read_person(query));
    if (!person) return people;
    people.push_back(*std::move(person));
  }
}

Result<NewToken> PeopleTable::add_token(std::string_view user, std::string_view label, WallTime now,
                                        std::optional<WallTime> expires) {
  DIVVY_TRY(person, find(user));
  if (!person) return nobody(user);
  if (expires && *expires <= now) {
    return err(ErrorCode::kInvalidArgument, "a token that has expired already is of no use");
  }
  DIVVY_TRY(text, make_token_text());
  NewToken token{{.id = text.id,
                  .user = std::string(user),
                  .label = std::string(label),
                  .created = now,
                  .expires = expires,
                  .last_used = std::nullopt,
                  .revoked = std::nullopt},
                 join_token(text)};
  DIVVY_TRY(insertion, connection_.prepare("INSERT INTO tokens (id, user, label, hash, created, "
                                           "expires) VALUES (?, ?, ?, ?, ?, ?)"));
  insertion.add(text.id).add(user).add(label).add(hash_text(text.secret)).add(now).add(expires);
  DIVVY_RETURN_IF_ERROR(insertion.run());
  return token;
}

Result<std::vector<TokenRecord>> PeopleTable::tokens(const std::optional<std::string>& user) {
  DIVVY_TRY(query, connection_.prepare("SELECT " DIVVY_TOKEN_COLUMNS
                                       " FROM tokens WHERE ?1 IS NULL OR user = ?1 "
                                       "ORDER BY created, id"));
  query.add(user);
  std::vector<TokenRecord> tokens;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return tokens;
    tokens.push_back(read_token(query));
  }
}

Status PeopleTable::revoke_token(std::string_view id, WallTime now) {
  DIVVY_TRY(update,
            connection_.prepare("UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE id = ?"));
  DIVVY_RETURN_IF_ERROR(update.add(now).add(id).run());
  if (connection_.changes() == 0) {
    return err(ErrorCode::kNotFound, "there is no token {}", escape_for_terminal(id.substr(0, 64)));
  }
  return {};
}

Result<PeopleTable::Owner> PeopleTable::owner_of(std::string_view token_text, WallTime now) {
  const auto given = split_token(token_text);
  if (!given) return refused();
  DIVVY_TRY(query,
            connection_.prepare("SELECT " DIVVY_TOKEN_COLUMNS ", hash FROM tokens WHERE id = ?"));
  DIVVY_TRY(known, query.add(given->id).step());
  const std::string hash = known ? query.text(7) : std::string(kNoHash);
  const bool right = equal_in_constant_time(hash_text(given->secret), hash);
  if (!known || !right) return refused();
  TokenRecord token = read_token(query);
  if (token.revoked || (token.expires && *token.expires <= now)) return refused();
  DIVVY_TRY(person, find(token.user));
  if (!person || person->disabled) return refused();
  return Owner{*std::move(person), std::move(token)};
}

bool PeopleTable::is_stale(const TokenRecord& token, WallTime now) {
  return !token.last_used || now - *token.last_used >= std::chrono::minutes(1);
}

Status PeopleTable::token_used(std::string_view id, WallTime now) {
  DIVVY_TRY(update, connection_.prepare("UPDATE tokens SET last_used = ? WHERE id = ?"));
  return update.add(now).add(id).run();
}

}  // namespace divvy::store
