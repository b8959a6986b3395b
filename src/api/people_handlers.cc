#include <algorithm>
#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/job_documents.h"
#include "api/query.h"
#include "base/text.h"
#include "model/json_fields.h"
#include "model/name.h"
#include "store/people_table.h"
#include "store/subject_table.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using model::JsonFields;
using store::Connection;
using store::PeopleTable;

// Takes role, uid and disabled from the fields, where they are.
Status read_person(JsonFields& fields, model::Person& person) {
  if (const auto role = fields.parsed("role", model::parse_role)) person.role = *role;
  fields.read("uid", person.uid);
  fields.read("disabled", person.disabled);
  return fields.finish();
}

// Whom the kernel knows needs no entry until there is something to keep about them. Nobody has said
// that an account of a provider with this name is them.
Status add_themselves(Connection& connection, const model::Person& who, WallTime now) {
  model::Person person = who;
  person.created = now;
  DIVVY_RETURN_IF_ERROR(PeopleTable(connection).add(person));
  if (!who.uid) return {};
  return store::SubjectTable(connection)
      .add(store::kThisMachine, std::to_string(*who.uid), who.name, now);
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
  DIVVY_TRY(body, model::parse_json(call.request.body));
  JsonFields fields(body);
  model::Person person;
  if (!fields.has("name")) fields.refuse("name", "who is it?");
  fields.read("name", person.name);
  if (const Status named = model::check_name("user", person.name); !named) {
    fields.refuse("name", named.error().message);
  }
  person.created = call.parts.clock.wall_now();
  DIVVY_RETURN_IF_ERROR(read_person(fields, person));
  DIVVY_RETURN_IF_ERROR(call.parts.database.commit(
      [&](Connection& connection) { return PeopleTable(connection).add(person); }));
  return created("/v1/people/" + person.name, headed("Person", person_document(person)));
}

Answer change_person(const Call& call, const std::string& name) {
  DIVVY_TRY(body, model::parse_json(call.request.body));
  model::Person changed;
  const Status done = call.parts.database.commit([&](Connection& connection) -> Status {
    PeopleTable table(connection);
    DIVVY_TRY(person, table.find(name));
    if (!person) return err(ErrorCode::kNotFound, "there is no user {}", escape_for_terminal(name));
    changed = *std::move(person);
    JsonFields fields(body);
    DIVVY_RETURN_IF_ERROR(read_person(fields, changed));
    // An admin says who it is.
    if (fields.has("uid") && changed.uid) {
      DIVVY_RETURN_IF_ERROR(store::SubjectTable(connection).remove(store::kThisMachine, name));
    }
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
  DIVVY_TRY(body, model::parse_json(call.request.body));
  JsonFields fields(body);
  std::string owner = call.who.name;
  std::string label;
  std::optional<model::Seconds> expires_in;
  fields.read("user", owner);
  fields.read("label", label);
  fields.read("expires_in", expires_in);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  if (owner != call.who.name) DIVVY_RETURN_IF_ERROR(may(call.who, Permission::kAdmin));
  const WallTime now = call.parts.clock.wall_now();
  const auto expires = expires_in ? std::optional<WallTime>(now + *expires_in) : std::nullopt;
  store::NewToken made;
  const Status done = call.parts.database.commit([&](Connection& connection) -> Status {
    PeopleTable table(connection);
    DIVVY_TRY(known, table.find(owner));
    if (!known && owner == call.who.name) {
      DIVVY_RETURN_IF_ERROR(add_themselves(connection, call.who, now));
    } else if (!known) {
      const std::string name = escape_for_terminal(owner);
      return err(ErrorCode::kNotFound, "there is no user {0}; `divvy user add {0}` makes one",
                 name);
    }
    DIVVY_TRY(token, table.add_token(owner, label, now, expires));
    made = std::move(token);
    return {};
  });
  if (!done) return err(done.error());
  json::object document = token_document(made.record);
  document["token"] = made.text;
  return created("/v1/tokens/" + made.record.id, headed("Token", document));
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
