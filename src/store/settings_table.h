// What an operator set for queues and users while the daemon runs (quotas, weights), as documents
// that the room `jobs` gives their meaning: this room may not know it. A view of a connection.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

enum class SettingsKind { kQueue, kUser };

struct SettingsRow {
  std::string name;      // "research/vision", "ada"
  std::string document;  // JSON
  friend bool operator==(const SettingsRow&, const SettingsRow&) = default;
};

class SettingsTable {
 public:
  explicit SettingsTable(Connection& connection) : connection_(connection) {}

  // Puts it in the place of what was there.
  [[nodiscard]] Status put(SettingsKind kind, const SettingsRow& row);
  // kNotFound when there was nothing.
  [[nodiscard]] Status remove(SettingsKind kind, std::string_view name);
  [[nodiscard]] Result<std::optional<std::string>> find(SettingsKind kind, std::string_view name);
  // In the order of their names.
  [[nodiscard]] Result<std::vector<SettingsRow>> list(SettingsKind kind);

 private:
  Connection& connection_;
};

}  // namespace divvy::store
