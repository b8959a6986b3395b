#include "api/people_routes.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/answers.h"
#include "api/job_documents.h"
#include "api/json_fields.h"
#include "api/query.h"
#include "base/text.h"
#include "model/name.h"
#include "store/people_table.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;
using store::Connection;
using store::PeopleTable;

constexpr std::string_view kPeople = "/v1/people";
constexpr std::string_view kTokens = "/v1/tokens";
constexpr std::string_view kWhoAmI = "/v1/whoami";

bool below(const std::string& path, std::string_view base) {
  return path == base || path.starts_with(std::string(base) + "/");
}

HttpResponse titled(int status, std::string_view kind, const json::object& content) {
  json::object document = headed(kind);
  for (const auto& field : content) document[field.key()] = field.value();
  return answer(status, document);
}

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

bool PeopleRoutes::handles(const std::string& path) {
  return path == kWhoAmI || below(path, kPeople) || below(path, kTokens);
}

HttpResponse PeopleRoutes::handle(const net::HttpRequest& request,
                                  const net::Caller& caller) const {
  const auto who = parts_.people.identify(request, caller);
  if (!who) return People::refusal(who.error());
  Answer answered = route(request, *who);
  return answered ? *std::move(answered) : problem(answered.error());
}

PeopleRoutes::Answer PeopleRoutes::route(const net::HttpRequest& request,
                                         const model::Person& who) const {
  const std::string& method = request.method;
  if (request.path == kWhoAmI && method == "GET") {
    return titled(200, "Person", person_document(who));
  }
  const auto words = split(std::string_view(request.path).substr(1), '/');  // v1 people NAME
  const std::string name(words.size() == 3 ? words[2] : "");
  if (request.path == kTokens && method == "GET") return tokens(request.query, who);
  if (request.path == kTokens && method == "POST") return add_token(request.body, who);
  if (below(request.path, kTokens) && method == "DELETE" && !name.empty()) {
    return revoke(name, who);
  }
  if (below(request.path, kPeople)) {
    DIVVY_RETURN_IF_ERROR(may(who, Action::kAdminister, nullptr));
    if (name.empty() && method == "GET") return list();
    if (name.empty() && method == "POST") return add(request.body);
    if (!name.empty() && method == "PATCH") return change(name, request.body);
    if (!name.empty() && method == "DELETE") return remove(name);
  }
  return problem(problem_document(
      404, "not found",
      fmt::format("{} cannot be done to {}", escape_for_terminal(method.substr(0, 20)),
                  escape_for_terminal(request.path.substr(0, 100)))));
}

PeopleRoutes::Answer PeopleRoutes::list() const {
  DIVVY_TRY(everybody, parts_.database.read(
                           [](Connection& connection) { return PeopleTable(connection).list(); }));
  json::array items;
  for (const model::Person& person : everybody) items.push_back(person_document(person));
  return titled(200, "PersonList", {{"items", std::move(items)}});
}

PeopleRoutes::Answer PeopleRoutes::add(const std::string& body) const {
  DIVVY_TRY(fields, JsonFields::parse(body));
  DIVVY_TRY(name, fields.text("name"));
  if (!name) return err(ErrorCode::kInvalidArgument, "name: who is it?");
  DIVVY_RETURN_IF_ERROR(with_context(model::check_name("user", *name), "name"));
  model::Person person;
  person.name = *name;
  person.created = parts_.clock.wall_now();
  DIVVY_RETURN_IF_ERROR(read_person(fields, person));
  DIVVY_RETURN_IF_ERROR(parts_.database.commit(
      [&](Connection& connection) { return PeopleTable(connection).add(person); }));
  return titled(201, "Person", person_document(person));
}

PeopleRoutes::Answer PeopleRoutes::change(const std::string& name, const std::string& body) const {
  DIVVY_TRY(fields, JsonFields::parse(body));
  model::Person changed;
  const Status done = parts_.database.commit([&](Connection& connection) -> Status {
    PeopleTable table(connection);
    DIVVY_TRY(person, table.find(name));
    if (!person) return err(ErrorCode::kNotFound, "there is no user {}", escape_for_terminal(name));
    changed = *std::move(person);
    DIVVY_RETURN_IF_ERROR(read_person(fields, changed));
    return table.change(changed);
  });
  if (!done) return err(done.error());
  return titled(200, "Person", person_document(changed));
}

PeopleRoutes::Answer PeopleRoutes::remove(const std::string& name) const {
  DIVVY_RETURN_IF_ERROR(parts_.database.commit(
      [&](Connection& connection) { return PeopleTable(connection).remove(name); }));
  return titled(200, "Person", {{"name", name}, {"removed", true}});
}

PeopleRoutes::Answer PeopleRoutes::tokens(const std::string& text, const model::Person& who) const {
  DIVVY_TRY(query, Query::parse(text));
  DIVVY_TRY(everybody, query.flag("everybody"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  if (everybody) DIVVY_RETURN_IF_ERROR(may(who, Action::kAdminister, nullptr));
  DIVVY_TRY(all, parts_.database.read([&](Connection& connection) {
    return PeopleTable(connection).tokens(everybody ? std::nullopt : std::optional(who.name));
  }));
  json::array items;
  for (const store::TokenRecord& token : all) items.push_back(token_document(token));
  return titled(200, "TokenList", {{"items", std::move(items)}});
}

PeopleRoutes::Answer PeopleRoutes::add_token(const std::string& body,
                                             const model::Person& who) const {
  DIVVY_TRY(fields, JsonFields::parse(body));
  DIVVY_TRY(user, fields.text("user"));
  DIVVY_TRY(label, fields.text("label"));
  DIVVY_TRY(expires_in, fields.seconds("expires_in"));
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  const std::string owner = user.value_or(who.name);
  if (owner != who.name) DIVVY_RETURN_IF_ERROR(may(who, Action::kAdminister, nullptr));
  const WallTime now = parts_.clock.wall_now();
  const auto expires = expires_in ? std::optional<WallTime>(now + *expires_in) : std::nullopt;
  store::NewToken made;
  const Status done = parts_.database.commit([&](Connection& connection) -> Status {
    PeopleTable table(connection);
    DIVVY_TRY(known, table.find(owner));
    // Whom the kernel knows needs no entry until there is something to keep about them.
    if (!known && owner == who.name) DIVVY_RETURN_IF_ERROR(table.add(who));
    DIVVY_TRY(token, table.add_token(owner, label.value_or(""), now, expires));
    made = std::move(token);
    return {};
  });
  if (!done) return err(done.error());
  json::object document = token_document(made.record);
  document["token"] = made.text;
  return titled(201, "Token", document);
}

PeopleRoutes::Answer PeopleRoutes::revoke(const std::string& id, const model::Person& who) const {
  const WallTime now = parts_.clock.wall_now();
  const bool operates = may(who, Action::kAdminister, nullptr).has_value();
  const Status done = parts_.database.commit([&](Connection& connection) -> Status {
    PeopleTable table(connection);
    DIVVY_TRY(mine, table.tokens(operates ? std::nullopt : std::optional(who.name)));
    // Of others not even that it is there.
    if (std::ranges::find(mine, id, &store::TokenRecord::id) == mine.end()) {
      return err(ErrorCode::kNotFound, "there is no token {}; `divvy token list` shows yours",
                 escape_for_terminal(id.substr(0, 60)));
    }
    return table.revoke_token(id, now);
  });
  if (!done) return err(done.error());
  return titled(200, "Token", {{"id", id}, {"revoked", true}});
}

}  // namespace divvy::api
