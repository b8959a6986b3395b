#include "store/audit_table.h"

#include <algorithm>

namespace divvy::store {

Result<std::uint64_t> AuditTable::add(const AuditRow& row) {
  DIVVY_TRY(insertion,
            connection_.prepare("INSERT INTO audit (at, user, caller, token, action, object, "
                                "status, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  insertion.add(row.at).add(row.user).add(row.caller).add(row.token).add(row.action);
  DIVVY_RETURN_IF_ERROR(insertion.add(row.object).add(row.status).add(row.outcome).run());
  return static_cast<std::uint64_t>(connection_.last_id());
}

Status AuditTable::finish(const AuditRow& row) {
  // The moment and the name, too: after a restore another entry may have this number.
  DIVVY_TRY(change, connection_.prepare(
                        "UPDATE audit SET status = ?, outcome = ? WHERE number = ? AND at = ? AND "
                        "user = ? AND action = ? AND status IS NULL"));
  change.add(row.status).add(row.outcome).add(row.number).add(row.at).add(row.user);
  DIVVY_RETURN_IF_ERROR(change.add(row.action).run());
  if (connection_.changes() > 0) return {};
  DIVVY_TRY(number, add(row));
  static_cast<void>(number);
  return {};
}

Result<std::vector<AuditRow>> AuditTable::list(const AuditFilter& filter) {
  std::string sql =
      "SELECT number, at, user, caller, token, action, object, status, outcome FROM audit WHERE "
      "true";
  if (filter.user) sql += " AND user = ?";
  if (filter.action) sql += " AND action = ?";
  if (filter.since) sql += " AND at >= ?";
  if (filter.before) sql += " AND at < ?";
  if (filter.after) sql += filter.oldest_first ? " AND number > ?" : " AND number < ?";
  sql += filter.oldest_first ? " ORDER BY number LIMIT ?" : " ORDER BY number DESC LIMIT ?";
  DIVVY_TRY(query, connection_.prepare(sql));
  if (filter.user) query.add(*filter.user);
  if (filter.action) query.add(*filter.action);
  if (filter.since) query.add(*filter.since);
  if (filter.before) query.add(*filter.before);
  if (filter.after) query.add(*filter.after);
  query.add(std::clamp(filter.limit, 1U, AuditFilter::kMostPerPage));
  std::vector<AuditRow> rows;
  for (;;) {
    DIVVY_TRY(more, query.step());
    if (!more) return rows;
    AuditRow& row = rows.emplace_back();
    row.number = static_cast<std::uint64_t>(query.integer(0));
    row.at = query.time(1);
    row.user = query.text(2);
    row.caller = query.text(3);
    row.token = query.text(4);
    row.action = query.text(5);
    row.object = query.text(6);
    if (!query.is_null(7)) row.status = static_cast<int>(query.integer(7));
    row.outcome = query.text(8);
  }
}

Status AuditTable::forget_before(WallTime time) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM audit WHERE at < ?"));
  return removal.add(time).run();
}

Status AuditTable::keep_of_each(std::uint64_t newest) {
  DIVVY_TRY(query, connection_.prepare("SELECT user FROM audit GROUP BY user HAVING count(*) > ?"));
  query.add(newest);
  std::vector<std::string> users;
  for (;;) {
    DIVVY_TRY(more, query.step());
    if (!more) break;
    users.push_back(query.text(0));
  }
  for (const std::string& user : users) {
    DIVVY_TRY(removal, connection_.prepare(
                           "DELETE FROM audit WHERE user = ?1 AND number <= (SELECT number FROM "
                           "audit WHERE user = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)"));
    DIVVY_RETURN_IF_ERROR(removal.add(user).add(newest).run());
  }
  return {};
}

}  // namespace divvy::store
