#include "api/queue_routes.h"

#include <unistd.h>

#include <boost/json.hpp>

#include "api/answers.h"
#include "api/job_documents.h"
#include "api/json_fields.h"
#include "api/queue_documents.h"
#include "base/text.h"
#include "model/name.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;
using store::Connection;
using store::SettingsKind;
using store::SettingsTable;

constexpr std::string_view kQueues = "/v1/queues";
constexpr std::string_view kQuotas = "/v1/quotas";
constexpr std::string_view kUsage = "/v1/usage";
constexpr std::string_view kBackup = "/v1/backup";

std::optional<std::string> name_below(const std::string& path, std::string_view base) {
  const std::string folder = std::string(base) + "/";
  if (!path.starts_with(folder) || path.size() == folder.size()) return std::nullopt;
  return path.substr(folder.size());
}

json::value maybe(const std::optional<Share>& share) {
  return share ? json::value(to_string(*share)) : json::value(nullptr);
}

json::value maybe(const std::optional<model::Seconds>& time) {
  return time ? json::value(time->count()) : json::value(nullptr);
}

json::object quota_document(const jobs::Quota& quota) {
  return {{"gpu", maybe(quota.share)},
          {"memoryBytes", quota.memory ? json::value(quota.memory->count()) : json::value()},
          {"jobs", quota.jobs ? json::value(*quota.jobs) : json::value()}};
}

json::object held_document(const jobs::Held& held) {
  return {{"gpu", to_string(Share(static_cast<std::uint32_t>(held.share)))},
          {"memoryBytes", held.memory},
          {"jobs", held.jobs}};
}

json::object queue_report_document(const jobs::QueueReport& queue) {
  return {{"path", queue.path},
          {"quota", quota_document(queue.quota)},
          {"mayBorrow", queue.may_borrow},
          {"mostGpu", maybe(queue.most_share)},
          {"weight", queue.weight},
          {"defaultTimeLimitSeconds", maybe(queue.time.usual)},
          {"maxTimeLimitSeconds", maybe(queue.time.most)},
          {"held", held_document(queue.held)},
          {"borrowedGpu", to_string(Share(static_cast<std::uint32_t>(queue.borrowed)))},
          {"waiting", queue.waiting},
          {"usedGpuHours", queue.used_gpu_hours},
          {"score", queue.score}};
}

}  // namespace

bool QueueRoutes::handles(const std::string& path) {
  return path == kQueues || path == kQuotas || path == kUsage || path == kBackup ||
         name_below(path, kQueues) || name_below(path, kQuotas);
}

HttpResponse QueueRoutes::handle(const net::HttpRequest& request, const net::Caller& caller) const {
  const auto who = parts_.people.identify(request, caller);
  if (!who) return People::refusal(who.error());
  Answer answered = route(request, *who);
  return answered ? *std::move(answered) : problem(answered.error());
}

QueueRoutes::Answer QueueRoutes::route(const net::HttpRequest& request,
                                       const model::Person& who) const {
  const bool get = request.method == "GET";
  if (get && request.path == kQueues) return queues();
  if (get && request.path == kQuotas) return quotas();
  if (get && request.path == kUsage) return usage(request.query, who);
  const auto queue = name_below(request.path, kQueues);
  const auto user = name_below(request.path, kQuotas);
  const bool backing_up = request.method == "POST" && request.path == kBackup;
  const bool putting = request.method == "PUT" && (queue || user);
  const bool removing = request.method == "DELETE" && (queue || user);
  if (!backing_up && !putting && !removing) {
    return problem(problem_document(
        404, "not found",
        fmt::format("{} cannot be done to {}", escape_for_terminal(request.method.substr(0, 20)),
                    escape_for_terminal(request.path.substr(0, 100)))));
  }
  DIVVY_RETURN_IF_ERROR(may(who, Action::kAdminister, nullptr));
  if (backing_up) {
    // It is the daemon that writes where the request says: for those who could do so themselves.
    if (!who.uid || (*who.uid != 0 && *who.uid != ::geteuid())) {
      return err(ErrorCode::kPermissionDenied,
                 "a backup is made by root, or by the user that divvyd runs as");
    }
    return backup(request.body);
  }
  const SettingsKind kind = queue ? SettingsKind::kQueue : SettingsKind::kUser;
  const std::string name = queue ? *queue : *user;
  return putting ? put(kind, name, request.body) : remove(kind, name);
}

QueueRoutes::Answer QueueRoutes::queues() const {
  json::object document = headed("QueueList");
  json::array items;
  for (const jobs::QueueReport& queue : parts_.dispatcher.queues()) {
    items.push_back(queue_report_document(queue));
  }
  document["items"] = std::move(items);
  return answer(200, document);
}

QueueRoutes::Answer QueueRoutes::quotas() const {
  json::object document = headed("QuotaList");
  json::array items;
  for (const jobs::UserReport& user : parts_.dispatcher.users()) {
    items.push_back({{"user", user.name},
                     {"most", quota_document(user.most)},
                     {"held", held_document(user.held)}});
  }
  document["items"] = std::move(items);
  return answer(200, document);
}

// Tried on the queue first: what it refuses is not kept.
Status QueueRoutes::apply() const {
  struct Rows {
    std::vector<store::SettingsRow> queues;
    std::vector<store::SettingsRow> users;
  };
  DIVVY_TRY(rows, parts_.database.read([](Connection& connection) -> Result<Rows> {
    SettingsTable table(connection);
    DIVVY_TRY(queue_rows, table.list(SettingsKind::kQueue));
    DIVVY_TRY(user_rows, table.list(SettingsKind::kUser));
    return Rows{std::move(queue_rows), std::move(user_rows)};
  }));
  DIVVY_TRY(settings, with_stored_settings(parts_.configured(), rows.queues, rows.users));
  return parts_.dispatcher.set_settings(std::move(settings));
}

QueueRoutes::Answer QueueRoutes::put(SettingsKind kind, const std::string& name,
                                     const std::string& body) const {
  std::string document;
  if (kind == SettingsKind::kQueue) {
    DIVVY_RETURN_IF_ERROR(model::check_queue_path(name));
    DIVVY_TRY(settings, read_queue_settings(name, body));
    document = write_queue_settings(settings);
  } else {
    DIVVY_RETURN_IF_ERROR(model::check_name("user", name));
    DIVVY_TRY(settings, read_user_settings(name, body));
    document = write_user_settings(settings);
  }
  std::optional<std::string> before;
  const Status kept = parts_.database.commit([&](Connection& connection) -> Status {
    SettingsTable table(connection);
    DIVVY_TRY(found, table.find(kind, name));
    before = std::move(found);
    return table.put(kind, {name, document});
  });
  if (!kept) return err(kept.error());
  if (const Status applied = apply(); !applied) {
    const Status undone = parts_.database.commit([&](Connection& connection) -> Status {
      SettingsTable table(connection);
      return before ? table.put(kind, {name, *before}) : table.remove(kind, name);
    });
    return err(undone ? applied.error() : undone.error());
  }
  return HttpResponse{200, "application/json", document + "\n"};
}

QueueRoutes::Answer QueueRoutes::remove(SettingsKind kind, const std::string& name) const {
  DIVVY_RETURN_IF_ERROR(parts_.database.commit(
      [&](Connection& connection) { return SettingsTable(connection).remove(kind, name); }));
  DIVVY_RETURN_IF_ERROR(apply());
  json::object document = headed(kind == SettingsKind::kQueue ? "Queue" : "Quota");
  document["name"] = name;
  document["removed"] = true;
  return answer(200, document);
}

QueueRoutes::Answer QueueRoutes::usage(const std::string& text, const model::Person& who) const {
  DIVVY_TRY(wanted, parse_usage_query(text));
  // What others use is the operators' business.
  if (!may(who, Action::kAdminister, nullptr)) wanted.filter.owner = who.name;
  DIVVY_TRY(sums, parts_.database.read([&](Connection& connection) {
    return store::UsageTable(connection).report(wanted.by, wanted.filter);
  }));
  if (wanted.csv) return HttpResponse{200, "text/csv; charset=utf-8", usage_csv(wanted.by, sums)};
  json::object document = headed("UsageReport");
  json::array items;
  for (const store::UsageSum& sum : sums) items.push_back(usage_document(sum));
  document["items"] = std::move(items);
  return answer(200, document);
}

QueueRoutes::Answer QueueRoutes::backup(const std::string& body) const {
  DIVVY_TRY(fields, JsonFields::parse(body));
  DIVVY_TRY(to, fields.text("to"));
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  if (!to || !std::filesystem::path(*to).is_absolute()) {
    return err(ErrorCode::kInvalidArgument, "to: name a file by its whole path");
  }
  DIVVY_RETURN_IF_ERROR(parts_.database.backup(*to));
  json::object document = headed("Backup");
  document["to"] = *to;
  return answer(200, document);
}

}  // namespace divvy::api
