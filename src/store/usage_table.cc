#include "store/usage_table.h"

namespace divvy::store {
namespace {

using std::chrono::floor;
using std::chrono::hours;

std::int64_t hour_of(WallTime time) { return floor<hours>(time).time_since_epoch().count(); }

constexpr std::string_view kWhere =
    " FROM usage WHERE (?1 IS NULL OR hour >= ?1) AND (?2 IS NULL OR hour < ?2) "
    "AND (?3 IS NULL OR owner = ?3) "
    "AND (?4 IS NULL OR queue = ?4 OR (queue >= ?4 || '/' AND queue < ?4 || '0')) "
    "AND (?5 IS NULL OR job = ?5) ";

void add_filter(Statement& query, const UsageFilter& filter) {
  query.add(filter.since ? std::optional(hour_of(*filter.since)) : std::nullopt);
  // The hour in which `before` lies counts, unless it begins there.
  query.add(filter.before ? std::optional(hour_of(*filter.before - Duration(1)) + 1)
                          : std::nullopt);
  query.add(filter.owner).add(filter.queue);
  query.add(filter.job ? std::optional(static_cast<std::int64_t>(filter.job->value()))
                       : std::nullopt);
}

std::string_view column(UsageBy by) {
  switch (by) {
    case UsageBy::kUser:
      return "owner";
    case UsageBy::kQueue:
      return "queue";
    case UsageBy::kJob:
      return "job";
    case UsageBy::kHour:
      break;
  }
  return "hour * 3600";
}

std::uint64_t amount(const Statement& row, int column) {
  return static_cast<std::uint64_t>(row.integer(column));
}

}  // namespace

Status UsageTable::add(const UsageRow& row) {
  DIVVY_TRY(insertion,
            connection_.prepare(
                "INSERT INTO usage (hour, job, attempt, owner, queue, held, used, memory, cpu) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "held = held + excluded.held, used = used + excluded.used, "
                "memory = memory + excluded.memory, cpu = cpu + excluded.cpu"));
  insertion.add(hour_of(row.from)).add(row.job.value()).add(row.attempt);
  insertion.add(row.owner).add(row.queue).add(row.held).add(row.used);
  return insertion.add(row.memory).add(row.cpu).run();
}

Result<std::vector<UsageSum>> UsageTable::report(UsageBy by, const UsageFilter& filter) {
  const std::string sql = fmt::format(
      "SELECT {0}, sum(held), sum(used), sum(memory), count(DISTINCT job), sum(cpu){1} GROUP BY "
      "{0} "
      "ORDER BY {0}",
      column(by), kWhere);
  DIVVY_TRY(query, connection_.prepare(sql));
  add_filter(query, filter);
  std::vector<UsageSum> sums;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return sums;
    sums.push_back({query.text(0), amount(query, 1), amount(query, 2), amount(query, 3),
                    amount(query, 4), amount(query, 5)});
  }
}

Result<std::vector<UsageRow>> UsageTable::rows(const UsageFilter& filter) {
  const std::string sql = fmt::format(
      "SELECT hour, job, attempt, owner, queue, held, used, memory, cpu{} ORDER BY hour, job, "
      "attempt",
      kWhere);
  DIVVY_TRY(query, connection_.prepare(sql));
  add_filter(query, filter);
  std::vector<UsageRow> rows;
  for (;;) {
    DIVVY_TRY(more, query.step());
    if (!more) return rows;
    rows.push_back({.from = WallTime(hours(query.integer(0))),
                    .job = model::JobId(amount(query, 1)),
                    .attempt = static_cast<std::uint32_t>(query.integer(2)),
                    .owner = query.text(3),
                    .queue = query.text(4),
                    .held = amount(query, 5),
                    .used = amount(query, 6),
                    .memory = amount(query, 7),
                    .cpu = amount(query, 8)});
  }
}

Status UsageTable::forget_before(WallTime time) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM usage WHERE hour < ?"));
  return removal.add(hour_of(time)).run();
}

}  // namespace divvy::store
