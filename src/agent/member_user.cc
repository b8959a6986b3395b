#include "agent/member_user.h"

#include <unistd.h>

namespace divvy::agent {
namespace {

Result<run::MachineUser> look_up(const UserName& user) {
  if (user.uid) return run::find_user(static_cast<uid_t>(*user.uid));
  // It can become nobody else, and whom its user added has been trusted with this account.
  if (user.is_known && ::geteuid() != 0) return run::find_user(::geteuid());
  // Whom the kernel knows needs no entry in the store.
  if (!user.is_known) return run::find_user(user.name);
  return err(ErrorCode::kNotFound, "no user of the machine was named");
}

}  // namespace

Result<run::MachineUser> find_member_user(const UserName& user) {
  auto found = look_up(user);
  if (!found) {
    return err(ErrorCode::kFailedPrecondition,
               "{} is no user of this machine; an operator makes them one with `divvy user set {} "
               "--uid UID`",
               user.name, user.name);
  }
  if (::geteuid() != 0 && found->uid != ::geteuid()) {
    return err(ErrorCode::kFailedPrecondition,
               "this daemon does not run as root, so it runs jobs of its own user only, and not of "
               "{}",
               user.name);
  }
  return found;
}

}  // namespace divvy::agent
