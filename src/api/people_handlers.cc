#include <algorithm>
#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/job_documents.h"
#include "api/json_fields.h"
#include "api/query.h"
#include "base/text.h"
#include "model/name.h"
#include "store/people_table.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using store::Connection;
using store::PeopleTable;

// Takes role, uid and disabled from the fields, where they are.
Status read_person(JsonFields& fields, model::Person& person) {
  DIVVY_TRY(role, fields.text("role"));
  DIVVY_TRY(uid, fields.number("uid"));
  DIVVY_TRY(disabled, fields.flag("disabled"));
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  if (role) {
    DIVVY_TRY(parsed, with_context(model::parse_role(*role), "role"));
    person.role = parsed;
  }
  if (uid) person.uid = uid;
  if (disabled) person.disabled = *disabled;
  return {};
}

}  // namespace

Answer who_am_i(const Call& call) {
  return answer(200, headed("Person", person_document(call.who)));
}

Answer list_people(const Call& call) {
  DIVVY_TRY(everybody, call.parts.database.read(
                           [](Connection& connection) { return PeopleTable(connection).list(); }));
  json::array items;
  for (const model::Person& person : everybody) items.push_back(person_document(person));
  return answer(200, listed("PersonList", std::move(items)));
}

Answer add_person(const Call& call) {
  DIVVY_TRY(fields, JsonFields::parse(call.request.body));
  DIVVY_TRY(name, fields.text("name"));
  if (!name) return err(ErrorCode::kInvalidArgument, "name: who is it?");
  DIVVY_RETURN_IF_ERROR(with_context(model::check_name("user", *name), "name"));
  model::Person person;
  person.name = *name;
  person.created = call.parts.clock.wall_now();
  DIVVY_RETURN_IF_ERROR(read_person(fields, person));
  DIVVY_RETURN_IF_ERROR(call.parts.database.commit(
      [&](Connection& connection) { return PeopleTable(connection).add(person); }));
  return answer(201, headed("Person", person_document(person)));
}

Answer change_person(const Call& call, const std::string& name) {
  DIVVY_TRY(fields, JsonFields::parse(call.request.body));
  model::Person changed;
  const Status done = call.parts.database.commit([&](Connection& connection) -> Status {
    PeopleTable table(connection);
    DIVVY_TRY(person, table.find(name));
    if (!person) return err(ErrorCode::kNotFound, "there is no user {}", escape_for_terminal(name));
    changed = *std::move(person);
    DIVVY_RETURN_IF_ERROR(read_person(fields, changed));
    return table.change(changed);
  });
  if (!done) return err(done.error());
  return answer(200, headed("Person", person_document(changed)));
}

Answer remove_person(const Call& call, const std::string& name) {
  DIVVY_RETURN_IF_ERROR(call.parts.database.commit(
      [&](Connection& connection) { return PeopleTable(connection).remove(name); }));
  return answer(200, headed("Person", {{"name", name}, {"removed", true}}));
}

Answer list_tokens(const Call& call) {
  DIVVY_TRY(query, Query::parse(call.request.query));
  DIVVY_TRY(everybody, query.flag("everybody"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  if (everybody) DIVVY_RETURN_IF_ERROR(may(call.who, Permission::kAdmin));
  DIVVY_TRY(all, call.parts.database.read([&](Connection& connection) {
    return PeopleTable(connection).tokens(everybody ? std::nullopt : std::optional(call.who.name));
  }));
  json::array items;
  for (const store::TokenRecord& token : all) items.push_back(token_document(token));
  return answer(200, listed("TokenList", std::move(items)));
}

Answer add_token(const Call& call) {
  DIVVY_TRY(fields, JsonFields::parse(call.request.body));
  DIVVY_TRY(user, fields.text("user"));
  DIVVY_TRY(label, fields.text("label"));
  DIVVY_TRY(expires_in, fields.seconds("expires_in"));
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  const std::string owner = user.value_or(call.who.name);
  if (owner != call.who.name) DIVVY_RETURN_IF_ERROR(may(call.who, Permission::kAdmin));
  const WallTime now = call.parts.clock.wall_now();
  const auto expires = expires_in ? std::optional<WallTime>(now + *expires_in) : std::nullopt;
  store::NewToken made;
  const Status done = call.parts.database.commit([&](Connection& connection) -> Status {
    PeopleTable table(connection);
    DIVVY_TRY(known, table.find(owner));
    // Whom the kernel knows needs no entry until there is something to keep about them.
    if (!known && owner == call.who.name) DIVVY_RETURN_IF_ERROR(table.add(call.who));
    DIVVY_TRY(token, table.add_token(owner, label.value_or(""), now, expires));
    made = std::move(token);
    return {};
  });
  if (!done) return err(done.error());
  json::object document = token_document(made.record);
  document["token"] = made.text;
  return answer(201, headed("Token", document));
}

Answer revoke_token(const Call& call, const std::string& id) {
  const WallTime now = call.parts.clock.wall_now();
  const bool operates = may(call.who, Permission::kAdmin).has_value();
  const Status done = call.parts.database.commit([&](Connection& connection) -> Status {
    PeopleTable table(connection);
    DIVVY_TRY(mine, table.tokens(operates ? std::nullopt : std::optional(call.who.name)));
    // Of others not even that it is there.
    if (std::ranges::find(mine, id, &store::TokenRecord::id) == mine.end()) {
      return err(ErrorCode::kNotFound, "there is no token {}; `divvy token list` shows yours",
                 escape_for_terminal(id.substr(0, 60)));
    }
    return table.revoke_token(id, now);
  });
  if (!done) return err(done.error());
  return answer(200, headed("Token", {{"id", id}, {"revoked", true}}));
}

}  // namespace divvy::api
