// As whom somebody's members run: the user of this machine that the person is. Callable from any
// thread.
#pragma once

#include "dispatch/dispatcher.h"
#include "store/database.h"

namespace divvy::dispatch {

// kFailedPrecondition: the person is no user of this machine, or not one that this daemon may
// become. A daemon that is not root's runs the jobs of people without a uid as its own user.
// `database` outlives it.
[[nodiscard]] FindAccount accounts_of(store::Database& database);

}  // namespace divvy::dispatch
