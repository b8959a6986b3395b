// Users of the machine by name or number, with everything that starting a program as one needs.
// Asks the machine's name service, which may be slow: callable from any thread, but not from one
// that others wait for.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "run/launch_environment.h"

namespace divvy::run {

struct MachineUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // beside gid
  Account account;
};

// kNotFound: the machine knows nobody of this name.
[[nodiscard]] Result<MachineUser> find_user(const std::string& name);
[[nodiscard]] Result<MachineUser> find_user(uid_t uid);

}  // namespace divvy::run
