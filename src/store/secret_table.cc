#include "store/secret_table.h"

namespace divvy::store {

Status SecretTable::put(std::string_view user, const SecretRecord& record,
                        std::string_view sealed) {
  DIVVY_TRY(insertion, connection_.prepare("INSERT OR REPLACE INTO secrets (user, name, changed, "
                                           "sealed) VALUES (?, ?, ?, ?)"));
  return insertion.add(user).add(record.name).add(record.changed).add(sealed).run();
}

Result<bool> SecretTable::remove(std::string_view user, std::string_view name) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM secrets WHERE user = ? AND name = ?"));
  DIVVY_RETURN_IF_ERROR(removal.add(user).add(name).run());
  return connection_.changes() > 0;
}

Result<std::vector<SecretRecord>> SecretTable::list(std::string_view user) {
  DIVVY_TRY(query,
            connection_.prepare("SELECT name, changed FROM secrets WHERE user = ? ORDER BY name"));
  query.add(user);
  std::vector<SecretRecord> records;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return records;
    records.push_back({query.text(0), query.time(1)});
  }
}

Result<std::optional<std::string>> SecretTable::sealed(std::string_view user,
                                                       std::string_view name) {
  DIVVY_TRY(query, connection_.prepare("SELECT sealed FROM secrets WHERE user = ? AND name = ?"));
  DIVVY_TRY(row, query.add(user).add(name).step());
  return row ? std::optional(query.text(0)) : std::nullopt;
}

}  // namespace divvy::store
