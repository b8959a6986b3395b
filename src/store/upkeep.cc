#include "store/upkeep.h"

#include "store/event_table.h"
#include "store/submission.h"
#include "store/usage_table.h"

namespace divvy::store {

Status forget_old(Connection& connection, WallTime now, std::optional<WallTime> events_since) {
  DIVVY_CHECK_OK(forget_keys(connection, now - kKeepKeys));
  DIVVY_CHECK_OK(EventTable(connection).keep(kKeepEvents));
  if (events_since) DIVVY_CHECK_OK(EventTable(connection).forget_before(*events_since));
  return UsageTable(connection).forget_before(now - kKeepUsage);
}

}  // namespace divvy::store
