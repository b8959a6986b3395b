#include "api/sign_in_admission.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "model/name.h"
#include "store/people_table.h"
#include "store/subject_table.h"

namespace divvy::api {
namespace {

using model::Person;
using model::Role;

bool is_in_one_of(const oidc::Claims& claims, const std::vector<std::string>& groups) {
  return std::ranges::any_of(claims.groups, [&](const std::string& group) {
    return std::ranges::find(groups, group) != groups.end();
  });
}

tl::unexpected<Error> turned_away(std::string_view name, std::string_view why) {
  return err(ErrorCode::kPermissionDenied, "{} is not let in: {}", name, why);
}

// The user of that name, who is somebody already and is to be this account from now on.
Status check_first_sign_in(store::SubjectTable& subjects, const Person& person,
                           const AdmissionRules& rules, bool is_admin_there) {
  DIVVY_TRY(other, subjects.subject_of(rules.issuer, person.name));
  if (other) {
    return turned_away(person.name,
                       "another account of the provider signs in by this name; an admin removes "
                       "that user first if it is the same person");
  }
  DIVVY_TRY(by_socket, subjects.subject_of(store::kThisMachine, person.name));
  if (by_socket) {
    return turned_away(
        person.name, fmt::format("this is a user of the machine whom no admin has added; if it is "
                                 "the same person, an admin says so with `divvy user set {} --uid "
                                 "{}`",
                                 person.name, *by_socket));
  }
  // A name alone makes nobody an admin, and nobody root.
  if (person.role == Role::kAdmin && !is_admin_there) {
    return turned_away(person.name,
                       "this is an admin, and the account is in none of the groups of admins "
                       "(sign_in.admin_groups)");
  }
  if (person.uid && (*person.uid == 0 || *person.uid == ::geteuid())) {
    return turned_away(person.name, "root and the daemon's own user come by the socket alone");
  }
  return {};
}

Result<Person> make_person(store::PeopleTable& people, std::string name,
                           const AdmissionRules& rules, WallTime now) {
  if (!rules.new_users) {
    return turned_away(name, fmt::format("there is no such user here; an admin adds them with "
                                         "`divvy user add {}`",
                                         name));
  }
  // Whoever has that name on the socket would become the same person.
  if (name.starts_with("uid-") || (rules.is_machine_user && rules.is_machine_user(name))) {
    return turned_away(name, fmt::format("this is a user of the machine; if it is the same person, "
                                         "an admin says so with `divvy user add {} --uid UID`",
                                         name));
  }
  Person person;
  person.name = std::move(name);
  person.created = now;
  DIVVY_RETURN_IF_ERROR(people.add(person));
  return person;
}

}  // namespace

Result<std::string> user_name_of(const oidc::Claims& claims, const AdmissionRules& rules) {
  if (claims.user.empty()) {
    return err(ErrorCode::kPermissionDenied,
               "the provider does not say which user it is; look at sign_in.user_claim and "
               "sign_in.scopes");
  }
  if (!claims.user_is_verified) {
    return err(ErrorCode::kPermissionDenied,
               "the provider has not verified the address (email_verified)");
  }
  std::string name = claims.user;
  if (const std::size_t at = name.rfind('@'); at != std::string::npos) {
    if (rules.user_domain.empty() || name.substr(at + 1) != rules.user_domain) {
      return err(ErrorCode::kPermissionDenied, "users of {} are not let in (sign_in.user_domain)",
                 escape_for_terminal(name.substr(at + 1, 100)));
    }
    name.resize(at);
  }
  if (const Status named = model::check_name("user", name); !named) {
    return err(ErrorCode::kPermissionDenied, "the provider gives a name that no user here has: {}",
               named.error().message);
  }
  return name;
}

Result<Person> admit(store::Connection& connection, const oidc::Claims& claims,
                     const AdmissionRules& rules, WallTime now) {
  store::PeopleTable people(connection);
  store::SubjectTable subjects(connection);
  DIVVY_TRY(bound, subjects.find(rules.issuer, claims.subject));
  std::string name;
  if (bound) {
    name = *bound;
  } else {
    DIVVY_TRY(given, user_name_of(claims, rules));
    name = std::move(given);
  }
  const bool is_admin_there = is_in_one_of(claims, rules.admin_groups);
  if (!rules.allowed_groups.empty() && !is_admin_there &&
      !is_in_one_of(claims, rules.allowed_groups)) {
    return turned_away(name,
                       "the account is in none of the groups that may (sign_in.allowed_groups)");
  }
  DIVVY_TRY(known, people.find(name));
  Person person;
  if (known) {
    person = *std::move(known);
    if (!bound) {
      DIVVY_RETURN_IF_ERROR(check_first_sign_in(subjects, person, rules, is_admin_there));
    }
  } else {
    DIVVY_TRY(made, make_person(people, name, rules, now));
    person = std::move(made);
  }
  if (person.disabled) return turned_away(name, "an admin has disabled this user");
  if (!bound) DIVVY_RETURN_IF_ERROR(subjects.add(rules.issuer, claims.subject, name, now));
  const Role role = is_admin_there ? Role::kAdmin : Role::kUser;
  if (!rules.admin_groups.empty() && person.role != role) {
    person.role = role;
    DIVVY_RETURN_IF_ERROR(people.change(person));
  }
  return person;
}

}  // namespace divvy::api
