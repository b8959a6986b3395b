// The schema, as the numbered steps that lead to it. Forward only: a step that was released is
// never changed, and no program takes one back. Called by Database when it opens.
#pragma once

#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

// What a database of this program has.
[[nodiscard]] int newest_schema();

// The schema of the file; 0 of an empty one. kDataLoss when it is somebody else's database,
// kFailedPrecondition when it is newer than this program.
[[nodiscard]] Result<int> check_schema(Connection& connection);

// Takes the steps that are missing, each in a transaction of its own. `newest` is less than
// newest_schema() only in tests.
[[nodiscard]] Status migrate(Connection& connection, int newest = newest_schema());

}  // namespace divvy::store
