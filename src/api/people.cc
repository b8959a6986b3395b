#include "api/people.h"

#include <unistd.h>

#include <boost/json.hpp>

#include "api/answers.h"
#include "api/session.h"
#include "base/log.h"
#include "base/text.h"
#include "model/name.h"
#include "store/people_table.h"
#include "sys/process.h"

namespace divvy::api {
namespace {

using model::Person;
using model::Role;

constexpr std::string_view kScheme = "bearer ";

// The token of "Authorization: Bearer ...", or of a browser's session. Nothing: there is neither.
Result<std::optional<std::string>> token_in(const net::HttpRequest& request) {
  const std::string_view header = trim(request.header("authorization"));
  if (header.empty()) return session_token(request);
  if (to_lower(header.substr(0, kScheme.size())) != kScheme) {
    return err(ErrorCode::kPermissionDenied,
               "only \"Authorization: Bearer TOKEN\" is understood here");
  }
  return std::string(trim(header.substr(kScheme.size())));
}

}  // namespace

Status may(const Person& person, Permission permission, const model::Job* job) {
  const bool is_admin = person.role == Role::kAdmin;
  switch (permission) {
    case Permission::kAnyone:
    case Permission::kKnown:
    case Permission::kOwn:
    case Permission::kSeeJob:
      return {};
    case Permission::kLookInsideJob:
    case Permission::kChangeJob:
      if (is_admin || (job != nullptr && job->owner == person.name)) return {};
      if (job == nullptr) break;
      return err(ErrorCode::kPermissionDenied,
                 "job {} belongs to {}; only they and admins may do that", job->id, job->owner);
    case Permission::kMachineUser:
      if (is_admin || person.uid) return {};
      return err(ErrorCode::kPermissionDenied,
                 "{} is no user of the machine; an admin makes them one with `divvy user set {} "
                 "--uid UID`",
                 person.name, person.name);
    case Permission::kAdmin:
      if (is_admin) return {};
      break;
    case Permission::kDaemonUser:
      if (!is_admin) break;
      if (person.uid && (*person.uid == 0 || *person.uid == ::geteuid())) return {};
      return err(ErrorCode::kPermissionDenied,
                 "a backup is made by root, or by the user that divvyd runs as");
  }
  return err(ErrorCode::kPermissionDenied, "only admins may do that, and {} is none", person.name);
}

Result<Identity> People::identify(const net::HttpRequest& request,
                                  const net::Caller& caller) const {
  DIVVY_TRY(token, token_in(request));
  if (token) {
    auto owner = owner_of(*token);
    if (!owner && refusals_.allow(caller.who(), clock_.now())) {
      log_warning("token refused", {{"from", caller.who()}, {"path", request.path}});
    }
    return owner;
  }
  if (caller.local()) {
    DIVVY_TRY(person, local_person(caller.uid()));
    return Identity{std::move(person), {}};
  }
  return err(ErrorCode::kPermissionDenied,
             "a token is needed over the network; on the machine, divvy token create makes one");
}

std::optional<std::string> People::account_of(const net::HttpRequest& request) const {
  const auto token = token_in(request);
  if (!token || !*token) return std::nullopt;
  const auto owner = owner_of(**token);
  if (!owner) return std::nullopt;
  return owner->person.name;
}

Result<Identity> People::owner_of(std::string_view token) const {
  const WallTime now = clock_.wall_now();
  DIVVY_TRY(owner, database_.read([&](store::Connection& connection) {
    return store::PeopleTable(connection).owner_of(token, now);
  }));
  if (store::PeopleTable::is_stale(owner.token, now)) {
    database_.later([id = owner.token.id, now](store::Connection& connection) {
      return store::PeopleTable(connection).token_used(id, now);
    });
  }
  return Identity{std::move(owner.person), std::move(owner.token.id)};
}

Result<Person> People::local_person(uid_t uid) const {
  const bool operates = uid == 0 || uid == daemon_uid_;
  const std::string name = sys::user_name(uid);
  DIVVY_TRY(known,
            database_.read([&](store::Connection& connection) -> Result<std::optional<Person>> {
              store::PeopleTable table(connection);
              DIVVY_TRY(tied, table.find_uid(uid));
              if (tied) return tied;
              return table.find(name);
            }));
  Person person;
  if (known && (!known->uid || *known->uid == uid)) {
    person = *std::move(known);
  } else {
    // Not the one of that name, or a name that /etc/passwd has and we would not take.
    const bool usable = !known && name.find_first_not_of("0123456789") != std::string::npos &&
                        model::check_name("user", name).has_value();
    person.name = usable ? name : fmt::format("uid-{}", uid);
  }
  person.uid = uid;
  if (operates) {
    // Whoever could change the database by hand is not kept out by what is in it.
    person.role = Role::kAdmin;
    person.disabled = false;
  }
  if (person.disabled) {
    return err(ErrorCode::kPermissionDenied, "{} is disabled; ask an admin", person.name);
  }
  return person;
}

net::HttpResponse People::refusal(const Error& error) {
  net::HttpResponse response = problem(problem_document(401, "not authenticated", error.message));
  response.headers["www-authenticate"] = "Bearer realm=\"divvy\"";
  return response;
}

}  // namespace divvy::api
