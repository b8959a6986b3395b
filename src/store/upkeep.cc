#include "store/upkeep.h"

#include "store/audit_table.h"
#include "store/event_table.h"
#include "store/submission.h"
#include "store/usage_table.h"

namespace divvy::store {

Status forget_old(Connection& connection, WallTime now, std::optional<WallTime> events_since) {
  DIVVY_RETURN_IF_ERROR(forget_keys(connection, now - kKeepKeys));
  DIVVY_RETURN_IF_ERROR(EventTable(connection).keep(kKeepEvents));
  if (events_since) DIVVY_RETURN_IF_ERROR(EventTable(connection).forget_before(*events_since));
  DIVVY_RETURN_IF_ERROR(AuditTable(connection).forget_before(now - kKeepAudit));
  DIVVY_RETURN_IF_ERROR(AuditTable(connection).keep_of_each(kKeepAuditOfOne));
  return UsageTable(connection).forget_before(now - kKeepUsage);
}

}  // namespace divvy::store
