#include "store/notification_table.h"

namespace divvy::store {
namespace {

std::int64_t signed_id(model::JobId id) { return static_cast<std::int64_t>(id.value()); }

}  // namespace

Status NotificationTable::add(const NotificationRow& row) {
  DIVVY_TRY(insertion,
            connection_.prepare("INSERT OR IGNORE INTO notifications (job, owner, ended, url, "
                                "body, tries, due) VALUES (?, ?, ?, ?, ?, ?, ?)"));
  insertion.add(signed_id(row.job)).add(row.owner).add(row.ended).add(row.url).add(row.body);
  return insertion.add(row.tries).add(row.due).run();
}

Status NotificationTable::put_off(model::JobId job, std::uint32_t tries, WallTime due) {
  DIVVY_TRY(change,
            connection_.prepare("UPDATE notifications SET tries = ?, due = ? WHERE job = ?"));
  return change.add(tries).add(due).add(signed_id(job)).run();
}

Status NotificationTable::remove(model::JobId job) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM notifications WHERE job = ?"));
  return removal.add(signed_id(job)).run();
}

Result<std::vector<NotificationTable::Waiting>> NotificationTable::waiting() {
  DIVVY_TRY(query, connection_.prepare("SELECT owner, min(due), count(*) FROM notifications "
                                       "GROUP BY owner ORDER BY owner"));
  std::vector<Waiting> owners;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return owners;
    owners.push_back({query.text(0), query.time(1), static_cast<std::uint64_t>(query.integer(2))});
  }
}

Result<std::optional<NotificationRow>> NotificationTable::next(std::string_view owner,
                                                               WallTime now) {
  DIVVY_TRY(query, connection_.prepare("SELECT job, owner, ended, url, body, tries, due "
                                       "FROM notifications WHERE owner = ? AND due <= ? "
                                       "ORDER BY due, job LIMIT 1"));
  DIVVY_TRY(found, query.add(owner).add(now).step());
  if (!found) return std::nullopt;
  return NotificationRow{.job = model::JobId(static_cast<std::uint64_t>(query.integer(0))),
                         .owner = query.text(1),
                         .ended = query.time(2),
                         .url = query.text(3),
                         .body = query.text(4),
                         .tries = static_cast<std::uint32_t>(query.integer(5)),
                         .due = query.time(6)};
}

Result<std::uint64_t> NotificationTable::keep(std::string_view owner, std::uint64_t most) {
  DIVVY_TRY(removal,
            connection_.prepare("DELETE FROM notifications WHERE owner = ?1 AND job IN (SELECT job "
                                "FROM notifications WHERE owner = ?1 ORDER BY job DESC "
                                "LIMIT -1 OFFSET ?2)"));
  DIVVY_RETURN_IF_ERROR(removal.add(owner).add(static_cast<std::int64_t>(most)).run());
  return static_cast<std::uint64_t>(connection_.changes());
}

}  // namespace divvy::store
