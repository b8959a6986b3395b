#include "store/schedule_table.h"

namespace divvy::store {
namespace {

ScheduleRow schedule_row(const Statement& row) {
  return {row.text(0), row.text(1), row.integer(2), row.text(3)};
}

}  // namespace

Status ScheduleTable::insert(const ScheduleRow& row) {
  DIVVY_TRY(insertion, connection_.prepare("INSERT INTO schedules (name, owner, revision, "
                                           "document) VALUES (?, ?, ?, ?)"));
  insertion.add(row.name).add(row.owner).add(row.revision).add(row.document);
  Status done = insertion.run();
  if (!done && done.error().code == ErrorCode::kAlreadyExists) {
    return err(ErrorCode::kAlreadyExists,
               "there is a schedule {} already; name this one with --name", row.name);
  }
  return done;
}

Result<bool> ScheduleTable::update(const ScheduleRow& row) {
  DIVVY_TRY(change,
            connection_.prepare("UPDATE schedules SET owner = ?, revision = revision + 1, document "
                                "= ? WHERE name = ? AND revision = ?"));
  change.add(row.owner).add(row.document).add(row.name).add(row.revision);
  DIVVY_RETURN_IF_ERROR(change.run());
  return connection_.changes() > 0;
}

Status ScheduleTable::remove(std::string_view name) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM schedules WHERE name = ?"));
  return removal.add(name).run();
}

Result<std::optional<ScheduleRow>> ScheduleTable::find(std::string_view name) {
  DIVVY_TRY(query, connection_.prepare(
                       "SELECT name, owner, revision, document FROM schedules WHERE name = ?"));
  DIVVY_TRY(row, query.add(name).step());
  if (!row) return std::nullopt;
  return schedule_row(query);
}

Result<std::vector<ScheduleRow>> ScheduleTable::list() {
  DIVVY_TRY(query, connection_.prepare(
                       "SELECT name, owner, revision, document FROM schedules ORDER BY name"));
  std::vector<ScheduleRow> rows;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return rows;
    rows.push_back(schedule_row(query));
  }
}

}  // namespace divvy::store
