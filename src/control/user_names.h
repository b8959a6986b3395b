// As whom somebody's jobs run, as far as the control side knows: by name, or as the user of the
// machines that an operator has said. Which user that is, each machine says itself.
#pragma once

#include <string>

#include "agent/orders.h"
#include "base/result.h"
#include "store/database.h"

namespace divvy::control {

// Reads the store.
[[nodiscard]] Result<agent::UserName> user_name_of(store::Database& database,
                                                   const std::string& owner);

}  // namespace divvy::control
