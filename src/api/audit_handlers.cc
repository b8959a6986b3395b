// The audit log as whoever asks may see it: their own entries, admins those of everybody. There is
// no route that changes it.
#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/query.h"
#include "base/text.h"
#include "store/audit_table.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using store::AuditFilter;
using store::AuditRow;

struct AuditQuery {
  AuditFilter filter;
  bool csv = false;
};

Result<AuditQuery> parse_audit_query(std::string_view text) {
  DIVVY_TRY(query, Query::parse(text));
  AuditQuery wanted;
  AuditFilter& filter = wanted.filter;
  filter.user = query.text("user");
  filter.action = query.text("action");
  DIVVY_TRY(since, query.time("since"));
  filter.since = since;
  DIVVY_TRY(before, query.time("before"));
  filter.before = before;
  DIVVY_TRY(order, query.word("order", {"newest", "oldest"}));
  filter.oldest_first = order == "oldest";
  DIVVY_TRY(after, query.number("after"));
  filter.after = after;
  DIVVY_TRY(limit, query.limit(AuditFilter::kMostPerPage));
  filter.limit = limit;
  DIVVY_TRY(format, query.word("format", {"json", "csv"}));
  wanted.csv = format == "csv";
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  return wanted;
}

std::int64_t milliseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

json::object entry_document(const AuditRow& row) {
  return {{"number", row.number},
          {"unixMilliseconds", milliseconds(row.at)},
          {"user", row.user},
          {"from", row.caller},
          {"token", row.token.empty() ? json::value(nullptr) : json::value(row.token)},
          {"action", row.action},
          {"object", row.object},
          {"status", row.status ? json::value(*row.status) : json::value(nullptr)},
          {"outcome", row.outcome}};
}

std::string entries_csv(const std::vector<AuditRow>& rows) {
  std::string text = "number,unix_milliseconds,user,from,token,action,object,status,outcome\n";
  for (const AuditRow& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{},{}\n", row.number, milliseconds(row.at),
                        csv_cell(row.user), csv_cell(row.caller), csv_cell(row.token),
                        csv_cell(row.action), csv_cell(row.object),
                        row.status ? fmt::to_string(*row.status) : "", csv_cell(row.outcome));
  }
  return text;
}

}  // namespace

Answer list_audit(const Call& call) {
  DIVVY_TRY(wanted, parse_audit_query(call.request.query));
  // What others do is the operators' business.
  if (!may(call.who, Permission::kAdmin)) wanted.filter.user = call.who.name;
  DIVVY_TRY(rows, call.parts.database.read([&](store::Connection& connection) {
    return store::AuditTable(connection).list(wanted.filter);
  }));
  if (wanted.csv) {
    return net::HttpResponse{200, "text/csv; charset=utf-8", entries_csv(rows)};
  }
  json::array items;
  for (const AuditRow& row : rows) items.push_back(entry_document(row));
  json::object document = listed("AuditLog", std::move(items));
  document["next"] =
      rows.size() == wanted.filter.limit ? json::value(rows.back().number) : json::value(nullptr);
  return answer(200, document);
}

}  // namespace divvy::api
