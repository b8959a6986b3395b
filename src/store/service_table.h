// Services as documents, which the room `serve` gives their meaning: this room may not know it. Who
// changes one says which revision it had seen, so that nobody's change is lost. A view of a
// connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

struct ServiceRow {
  std::string name;
  std::string owner;
  std::uint16_t port = 0;
  std::int64_t revision = 1;
  std::string document;  // JSON
  friend bool operator==(const ServiceRow&, const ServiceRow&) = default;
};

class ServiceTable {
 public:
  explicit ServiceTable(Connection& connection) : connection_(connection) {}

  // kAlreadyExists: one of that name, or at that port.
  [[nodiscard]] Status insert(const ServiceRow& row);
  // Whether it still had `row.revision`, which is one more now.
  [[nodiscard]] Result<bool> update(const ServiceRow& row);
  [[nodiscard]] Status remove(std::string_view name);
  [[nodiscard]] Result<std::optional<ServiceRow>> find(std::string_view name);
  // In the order of their names.
  [[nodiscard]] Result<std::vector<ServiceRow>> list();

 private:
  Connection& connection_;
};

}  // namespace divvy::store
