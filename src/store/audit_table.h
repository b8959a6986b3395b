// The audit log: who asked for what, from where, when, and what became of it. Entries are added and
// get an outcome once; nothing changes them afterwards, and only their age removes them. A view of
// a connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

struct AuditRow {
  std::uint64_t number = 0;  // Given by the table, from 1
  WallTime at;
  std::string user;
  std::string caller;  // From where: "uid 1000, pid 4711" or "10.0.0.7"
  std::string token;   // The id of the one that was shown; empty: none was
  std::string action;  // The name of the route: "submitJob"
  std::string object;  // What it was asked of: "/v1/jobs/17"
  // As of HTTP; nothing: no answer was given so far, or ever.
  std::optional<int> status = std::nullopt;
  std::string outcome = {};  // What was made: "/v1/jobs/18"; or why it was refused
  friend bool operator==(const AuditRow&, const AuditRow&) = default;
};

struct AuditFilter {
  static constexpr std::uint32_t kMostPerPage = 1000;

  std::optional<std::string> user = std::nullopt;
  std::optional<std::string> action = std::nullopt;
  std::optional<WallTime> since = std::nullopt;
  std::optional<WallTime> before = std::nullopt;
  bool oldest_first = false;
  // Those that come behind this one, in the order that is asked for.
  std::optional<std::uint64_t> after = std::nullopt;
  std::uint32_t limit = 100;
};

class AuditTable {
 public:
  explicit AuditTable(Connection& connection) : connection_(connection) {}

  // Answers with the number that it got.
  [[nodiscard]] Result<std::uint64_t> add(const AuditRow& row);
  // The status and the outcome of `row`, which add() gave its number. One that is not there any
  // more (a backup was restored in between) is added as it is.
  [[nodiscard]] Status finish(const AuditRow& row);
  [[nodiscard]] Result<std::vector<AuditRow>> list(const AuditFilter& filter);
  [[nodiscard]] Status forget_before(WallTime time);
  // Of each person all but the newest.
  [[nodiscard]] Status keep_of_each(std::uint64_t newest);

 private:
  Connection& connection_;
};

}  // namespace divvy::store
