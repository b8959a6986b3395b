#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/job_documents.h"
#include "api/queue_documents.h"
#include "model/json_fields.h"
#include "model/name.h"
#include "store/settings_table.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;
using store::Connection;
using store::SettingsKind;
using store::SettingsTable;

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

// Tried on the queue at once: what it refuses is not kept.
Answer keep(const Parts& parts, SettingsKind kind, const store::SettingsRow& row) {
  std::optional<std::string> before;
  const Status kept = parts.database.commit([&](Connection& connection) -> Status {
    SettingsTable table(connection);
    DIVVY_TRY(found, table.find(kind, row.name));
    before = std::move(found);
    return table.put(kind, row);
  });
  if (!kept) return err(kept.error());
  if (const Status applied = apply_settings(parts); !applied) {
    const Status undone = parts.database.commit([&](Connection& connection) -> Status {
      SettingsTable table(connection);
      return before ? table.put(kind, {row.name, *before}) : table.remove(kind, row.name);
    });
    return err(undone ? applied.error() : undone.error());
  }
  return HttpResponse{200, "application/json", row.document + "\n"};
}

Answer remove(const Parts& parts, SettingsKind kind, const std::string& name) {
  DIVVY_RETURN_IF_ERROR(parts.database.commit(
      [&](Connection& connection) { return SettingsTable(connection).remove(kind, name); }));
  DIVVY_RETURN_IF_ERROR(apply_settings(parts));
  return answer(200, headed(kind == SettingsKind::kQueue ? "Queue" : "Quota",
                            {{"name", name}, {"removed", true}}));
}

}  // namespace

Answer list_queues(const Call& call) {
  json::array items;
  for (const jobs::QueueReport& queue : call.parts.dispatcher.queues()) {
    items.push_back(queue_report_document(queue));
  }
  return answer(200, listed("QueueList", std::move(items)));
}

Answer list_quotas(const Call& call) {
  json::array items;
  for (const jobs::UserReport& user : call.parts.dispatcher.users()) {
    items.push_back({{"user", user.name},
                     {"most", quota_document(user.most)},
                     {"held", held_document(user.held)}});
  }
  return answer(200, listed("QuotaList", std::move(items)));
}

Status apply_settings(const Parts& parts) {
  struct Rows {
    std::vector<store::SettingsRow> queues;
    std::vector<store::SettingsRow> users;
  };
  DIVVY_TRY(rows, parts.database.read([](Connection& connection) -> Result<Rows> {
    SettingsTable table(connection);
    DIVVY_TRY(queue_rows, table.list(SettingsKind::kQueue));
    DIVVY_TRY(user_rows, table.list(SettingsKind::kUser));
    return Rows{std::move(queue_rows), std::move(user_rows)};
  }));
  DIVVY_TRY(settings, with_stored_settings(parts.configured(), rows.queues, rows.users));
  return parts.dispatcher.set_settings(std::move(settings));
}

Answer put_queue(const Call& call, const QueuePath& path) {
  DIVVY_RETURN_IF_ERROR(model::check_queue_path(path.text));
  DIVVY_TRY(settings, read_queue_settings(path.text, call.request.body));
  return keep(call.parts, SettingsKind::kQueue, {path.text, write_queue_settings(settings)});
}

Answer put_quota(const Call& call, const std::string& user) {
  DIVVY_RETURN_IF_ERROR(model::check_name("user", user));
  DIVVY_TRY(settings, read_user_settings(user, call.request.body));
  return keep(call.parts, SettingsKind::kUser, {user, write_user_settings(settings)});
}

Answer remove_queue(const Call& call, const QueuePath& path) {
  return remove(call.parts, SettingsKind::kQueue, path.text);
}

Answer remove_quota(const Call& call, const std::string& user) {
  return remove(call.parts, SettingsKind::kUser, user);
}

Answer report_usage(const Call& call) {
  DIVVY_TRY(wanted, parse_usage_query(call.request.query));
  // What others use is the operators' business.
  if (!may(call.who, Permission::kAdmin)) wanted.filter.owner = call.who.name;
  DIVVY_TRY(sums, call.parts.database.read([&](Connection& connection) {
    return store::UsageTable(connection).report(wanted.by, wanted.filter);
  }));
  if (wanted.csv) return HttpResponse{200, "text/csv; charset=utf-8", usage_csv(wanted.by, sums)};
  json::array items;
  for (const store::UsageSum& sum : sums) items.push_back(usage_document(sum));
  return answer(200, listed("UsageReport", std::move(items)));
}

Answer make_backup(const Call& call) {
  DIVVY_TRY(document, model::parse_json(call.request.body));
  model::JsonFields fields(document);
  std::string to;
  fields.read("to", to);
  if (!std::filesystem::path(to).is_absolute()) {
    fields.refuse("to", "name a file by its whole path");
  }
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_RETURN_IF_ERROR(call.parts.database.backup(to));
  return answer(200, headed("Backup", {{"to", to}}));
}

}  // namespace divvy::api
