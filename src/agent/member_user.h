// The user of this machine as whom somebody's work runs.
#pragma once

#include "agent/orders.h"
#include "base/result.h"
#include "run/users.h"

namespace divvy::agent {

// kFailedPrecondition: there is none, or this process cannot become it; with what to do. Asks the
// machine's name service, which may be slow.
[[nodiscard]] Result<run::MachineUser> find_member_user(const UserName& user);

}  // namespace divvy::agent
