// Who uses Divvy: a name, what they may do, and the user of this machine that they are. A plain
// value.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace divvy::model {

enum class Role {
  kUser,   // their own jobs; sees what others run, not what is in it
  kAdmin,  // everything
};
[[nodiscard]] std::string_view to_string(Role role);
[[nodiscard]] Result<Role> parse_role(std::string_view text);

struct Person {
  std::string name;  // model/name.h
  Role role = Role::kUser;
  // On the local socket the kernel says who it is. Nothing: they come over the network only.
  std::optional<uid_t> uid;
  WallTime created;
  bool disabled = false;  // Their tokens are refused; their jobs stay
  friend bool operator==(const Person&, const Person&) = default;
};

}  // namespace divvy::model
