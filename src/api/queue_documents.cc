#include "api/queue_documents.h"

#include <algorithm>

#include "model/json_fields.h"
#include "model/seconds.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using model::JsonFields;

template <typename T>
json::value text_or_null(const std::optional<T>& value) {
  return value ? json::value(to_string(*value)) : json::value(nullptr);
}
json::value number_or_null(const std::optional<std::uint32_t>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::value time_or_null(const std::optional<model::Seconds>& value) {
  return value ? json::value(model::seconds_text(*value)) : json::value(nullptr);
}

struct QuotaFields {
  std::string_view gpu;
  std::string_view memory;
  std::string_view jobs;
};
constexpr QuotaFields kQuota{"gpu", "memory", "jobs"};
constexpr QuotaFields kUserQuota{"user_gpu", "user_memory", "user_jobs"};

void read_quota(JsonFields& fields, const QuotaFields& names, jobs::Quota& quota) {
  fields.read(names.gpu, quota.share);
  fields.read(names.memory, quota.memory);
  fields.read(names.jobs, quota.jobs);
}

void write_quota(json::object& document, const QuotaFields& names, const jobs::Quota& quota) {
  document[names.gpu] = text_or_null(quota.share);
  document[names.memory] = text_or_null(quota.memory);
  document[names.jobs] = number_or_null(quota.jobs);
}

// In the place of the one with the same name.
template <typename T>
void put(std::vector<T>& list, T value, std::string T::* name) {
  const auto found = std::ranges::find(list, value.*name, name);
  if (found == list.end()) {
    list.push_back(std::move(value));
  } else {
    *found = std::move(value);
  }
}

}  // namespace

std::string write_queue_settings(const jobs::QueueSettings& settings) {
  json::object document;
  write_quota(document, kQuota, settings.quota);
  write_quota(document, kUserQuota, settings.per_user);
  document["borrow"] = settings.may_borrow;
  document["most_gpu"] = text_or_null(settings.most_share);
  document["weight"] = settings.weight;
  document["default_time_limit"] = time_or_null(settings.time.usual);
  document["max_time_limit"] = time_or_null(settings.time.most);
  document["idle_after"] =
      settings.idle ? json::value(model::seconds_text(settings.idle->after)) : json::value(nullptr);
  document["idle_warning"] = settings.idle
                                 ? json::value(model::seconds_text(settings.idle->warning))
                                 : json::value(nullptr);
  return json::serialize(document);
}

Result<jobs::QueueSettings> read_queue_settings(std::string path, std::string_view text) {
  DIVVY_RETURN_IF_ERROR(model::check_queue_path(path));
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  jobs::QueueSettings settings;
  std::optional<model::Seconds> idle_after;
  model::Seconds idle_warning(0);
  settings.path = std::move(path);
  read_quota(fields, kQuota, settings.quota);
  read_quota(fields, kUserQuota, settings.per_user);
  fields.read("borrow", settings.may_borrow);
  fields.read("most_gpu", settings.most_share);
  fields.read("weight", settings.weight);
  fields.read("default_time_limit", settings.time.usual);
  fields.read("max_time_limit", settings.time.most);
  fields.read("idle_after", idle_after);
  fields.read("idle_warning", idle_warning);
  if (fields.has("idle_warning") && !idle_after) {
    fields.refuse("idle_warning", "this means nothing without idle_after");
  }
  DIVVY_RETURN_IF_ERROR(fields.finish());
  if (idle_after) settings.idle = jobs::IdlePolicy{*idle_after, idle_warning};
  jobs::Settings alone;
  alone.queues = {settings};
  DIVVY_RETURN_IF_ERROR(jobs::check(alone));
  return settings;
}

std::string write_user_settings(const jobs::UserSettings& settings) {
  json::object document;
  write_quota(document, kQuota, settings.most);
  document["weight"] = settings.weight;
  return json::serialize(document);
}

Result<jobs::UserSettings> read_user_settings(std::string name, std::string_view text) {
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  jobs::UserSettings settings;
  settings.name = std::move(name);
  read_quota(fields, kQuota, settings.most);
  fields.read("weight", settings.weight);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  jobs::Settings alone;
  alone.users = {settings};
  DIVVY_RETURN_IF_ERROR(jobs::check(alone));
  return settings;
}

Result<jobs::Settings> with_stored_settings(jobs::Settings settings,
                                            const std::vector<store::SettingsRow>& queues,
                                            const std::vector<store::SettingsRow>& users) {
  for (const store::SettingsRow& row : queues) {
    DIVVY_TRY(queue, with_context(read_queue_settings(row.name, row.document),
                                  fmt::format("the stored queue {}", row.name)));
    put(settings.queues, std::move(queue), &jobs::QueueSettings::path);
  }
  for (const store::SettingsRow& row : users) {
    DIVVY_TRY(user, with_context(read_user_settings(row.name, row.document),
                                 fmt::format("the stored user {}", row.name)));
    put(settings.users, std::move(user), &jobs::UserSettings::name);
  }
  DIVVY_RETURN_IF_ERROR(jobs::check(settings));
  return settings;
}

}  // namespace divvy::api
