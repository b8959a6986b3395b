// Jobs that are submitted at times that come again, as documents that the room `control` gives
// their meaning. Who changes one says which revision it had seen, so that nobody's change is lost.
// A view of a connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

struct ScheduleRow {
  std::string name;
  std::string owner;
  std::int64_t revision = 1;
  std::string document;  // JSON
  friend bool operator==(const ScheduleRow&, const ScheduleRow&) = default;
};

class ScheduleTable {
 public:
  explicit ScheduleTable(Connection& connection) : connection_(connection) {}

  // kAlreadyExists: one of that name.
  [[nodiscard]] Status insert(const ScheduleRow& row);
  // Whether it still had `row.revision`, which is one more now.
  [[nodiscard]] Result<bool> update(const ScheduleRow& row);
  [[nodiscard]] Status remove(std::string_view name);
  [[nodiscard]] Result<std::optional<ScheduleRow>> find(std::string_view name);
  // In the order of their names.
  [[nodiscard]] Result<std::vector<ScheduleRow>> list();

 private:
  Connection& connection_;
};

}  // namespace divvy::store
