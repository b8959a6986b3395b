#include "api/audit_log.h"

#include <boost/json.hpp>

#include "api/answers.h"
#include "api/query.h"
#include "base/text.h"

namespace divvy::api {
namespace {

// Of a path or a sentence: whoever asks does not decide how long an entry is.
constexpr std::size_t kMostText = 300;
// Of changes that wait for the disk. The store drops what nobody waits for when there are many
// more; an entry is waited for instead.
constexpr std::size_t kManyWaiting = 5'000;

bool changes_something(const Route& route, const net::HttpRequest& request) {
  if (route.method == "GET" || route.only_asks) return false;
  // Where a route knows no such word it carries the change out all the same.
  if (route.described.query.find("dry_run:boolean") == std::string_view::npos) return true;
  auto query = Query::parse(request.query);
  return !query || !query->flag("dry_run").value_or(false);
}

std::string shown(std::string_view text) { return escape_for_terminal(text.substr(0, kMostText)); }

// Why it was refused, as the answer says it.
std::string detail_in(const net::HttpResponse& refused) {
  boost::system::error_code failed;
  const auto document = boost::json::parse(refused.body, failed);
  const auto* const object = failed ? nullptr : document.if_object();
  const auto* const detail = object == nullptr ? nullptr : object->if_contains("detail");
  return detail != nullptr && detail->is_string() ? shown(detail->get_string()) : std::string();
}

}  // namespace

std::optional<AuditEntry> AuditEntry::begin(const Parts& parts, const Route& route,
                                            const net::HttpRequest& request,
                                            const net::Caller& caller, const Identity& who) {
  if (!changes_something(route, request)) return std::nullopt;
  store::AuditRow row;
  row.at = parts.clock.wall_now();
  row.user = who.person.name;
  row.caller =
      caller.local() ? fmt::format("{}, pid {}", caller.who(), caller.pid()) : caller.who();
  row.token = who.token;
  row.action = route.id;
  row.object = shown(request.path);
  AuditEntry entry(parts.database, std::move(row));
  store::Change change = [row = entry.row_,
                          number = entry.number_](store::Connection& connection) -> Status {
    DIVVY_TRY(given, store::AuditTable(connection).add(row));
    *number = given;
    return {};
  };
  if (parts.database.counts().waiting < kManyWaiting) {
    parts.database.later(std::move(change));
  } else {
    (void)parts.database.commit(std::move(change));
  }
  return entry;
}

void AuditEntry::finish(const Answer& answer) const {
  store::AuditRow row = row_;
  if (!answer) {
    row.status = http_status(answer.error().code);
    row.outcome = shown(answer.error().message);
  } else {
    row.status = answer->status;
    if (const auto made = answer->headers.find("location"); made != answer->headers.end()) {
      row.outcome = shown(made->second);
    } else if (answer->status >= 400) {
      row.outcome = detail_in(*answer);
    }
  }
  database_.later([row = std::move(row), number = number_](store::Connection& connection) mutable {
    row.number = *number;
    return store::AuditTable(connection).finish(row);
  });
}

}  // namespace divvy::api
