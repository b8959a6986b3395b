#include "model/person.h"

#include "base/text.h"

namespace divvy::model {

std::string_view to_string(Role role) { return role == Role::kAdmin ? "admin" : "user"; }

Result<Role> parse_role(std::string_view text) {
  const std::string word = to_lower(trim(text));
  if (word == "admin") return Role::kAdmin;
  if (word == "user") return Role::kUser;
  return err(ErrorCode::kInvalidArgument, "there is no role \"{}\"; write admin or user",
             escape_for_terminal(text.substr(0, 40)));
}

}  // namespace divvy::model
