#include "control/user_names.h"

#include "store/people_table.h"

namespace divvy::control {

Result<agent::UserName> user_name_of(store::Database& database, const std::string& owner) {
  DIVVY_TRY(person, database.read([&](store::Connection& connection) {
    return store::PeopleTable(connection).find(owner);
  }));
  agent::UserName user{.name = owner};
  if (person) {
    user.is_known = true;
    if (person->uid) user.uid = static_cast<std::uint32_t>(*person->uid);
  }
  return user;
}

}  // namespace divvy::control
