#include "store/event_table.h"

#include <algorithm>

namespace divvy::store {
namespace {

std::optional<std::int64_t> signed_job(const std::optional<model::JobId>& job) {
  return job ? std::optional(static_cast<std::int64_t>(job->value())) : std::nullopt;
}

}  // namespace

Result<std::uint64_t> EventTable::add(const EventRow& event) {
  DIVVY_TRY(insertion,
            connection_.prepare("INSERT INTO events (at, kind, job, user, object, state, reason, "
                                "node, gpu, tenant) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insertion.add(event.at).add(event.kind).add(signed_job(event.job)).add(event.user);
  insertion.add(event.object).add(event.state).add(event.reason).add(event.node);
  const auto gpu = event.gpu ? std::optional<std::int64_t>(*event.gpu) : std::nullopt;
  DIVVY_RETURN_IF_ERROR(insertion.add(gpu).add(event.tenant).run());
  return static_cast<std::uint64_t>(connection_.last_id());
}

Result<std::vector<EventRow>> EventTable::list(const EventFilter& filter) {
  std::string sql =
      "SELECT number, at, kind, job, user, object, state, reason, node, gpu, tenant FROM events "
      "WHERE number > ?";
  if (filter.about == EventFilter::About::kJobs) sql += " AND node = ''";
  if (filter.about == EventFilter::About::kMachines) sql += " AND node != ''";
  if (filter.job) sql += " AND job = ?";
  if (filter.user) sql += " AND user = ?";
  sql += " ORDER BY number LIMIT ?";
  DIVVY_TRY(query, connection_.prepare(sql));
  query.add(filter.after);
  if (filter.job) query.add(signed_job(filter.job));
  if (filter.user) query.add(*filter.user);
  query.add(std::clamp(filter.limit, 1U, EventFilter::kMostPerPage));
  std::vector<EventRow> events;
  for (;;) {
    DIVVY_TRY(row, query.step());
    if (!row) return events;
    EventRow& event = events.emplace_back();
    event.number = static_cast<std::uint64_t>(query.integer(0));
    event.at = query.time(1);
    event.kind = query.text(2);
    if (!query.is_null(3)) event.job = model::JobId(static_cast<std::uint64_t>(query.integer(3)));
    event.user = query.text(4);
    event.object = query.text(5);
    event.state = query.text(6);
    event.reason = query.text(7);
    event.node = query.text(8);
    if (!query.is_null(9)) event.gpu = static_cast<std::uint32_t>(query.integer(9));
    event.tenant = query.text(10);
  }
}

Result<std::uint64_t> EventTable::last() {
  DIVVY_TRY(last, connection_.number("SELECT seq FROM sqlite_sequence WHERE name = 'events'"));
  return static_cast<std::uint64_t>(last);
}

Result<std::uint64_t> EventTable::first() {
  DIVVY_TRY(first, connection_.number("SELECT min(number) FROM events"));
  return static_cast<std::uint64_t>(first);
}

Status EventTable::forget_before(WallTime time) {
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM events WHERE at < ?"));
  return removal.add(time).run();
}

Status EventTable::keep(std::uint64_t newest) {
  DIVVY_TRY(number, last());
  if (number <= newest) return {};
  DIVVY_TRY(removal, connection_.prepare("DELETE FROM events WHERE number <= ?"));
  return removal.add(number - newest).run();
}

}  // namespace divvy::store
