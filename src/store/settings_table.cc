#include "store/settings_table.h"

#include "base/text.h"

namespace divvy::store {
namespace {

std::string_view word(SettingsKind kind) { return kind == SettingsKind::kQueue ? "queue" : "user"; }

}  // namespace

Status SettingsTable::put(SettingsKind kind, const SettingsRow& row) {
  DIVVY_TRY(put, connection_.prepare("INSERT OR REPLACE INTO settings VALUES (?, ?, ?)"));
  return put.add(word(kind)).add(row.name).add(row.document).run();
}

Status SettingsTable::remove(SettingsKind kind, std::string_view name) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM settings WHERE kind = ? AND name = ?"));
  DIVVY_RETURN_IF_ERROR(removal.add(word(kind)).add(name).run());
  if (connection_.changes() == 0) {
    return err(ErrorCode::kNotFound, "nothing was set for the {} {}", word(kind),
               escape_for_terminal(name));
  }
  return {};
}

Result<std::optional<std::string>> SettingsTable::find(SettingsKind kind, std::string_view name) {
  DIVVY_TRY(query,
            connection_.prepare("SELECT document FROM settings WHERE kind = ? AND name = ?"));
  DIVVY_TRY(row, query.add(word(kind)).add(name).step());
  if (!row) return std::nullopt;
  return query.text(0);
}

Result<std::vector<SettingsRow>> SettingsTable::list(SettingsKind kind) {
  DIVVY_TRY(query, connection_.prepare(
                       "SELECT name, document FROM settings WHERE kind = ? ORDER BY name"));
  query.add(word(kind));
  std::vector<SettingsRow> rows;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return rows;
    rows.push_back({query.text(0), query.text(1)});
  }
}

}  // namespace divvy::store
