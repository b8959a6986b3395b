#include "api/queue_documents.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/json_fields.h"
#include "model/seconds.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

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

Result<jobs::Quota> read_quota(JsonFields& fields, const std::string& before) {
  jobs::Quota quota;
  DIVVY_TRY(share, fields.share(before + "gpu"));
  DIVVY_TRY(memory, fields.bytes(before + "memory"));
  DIVVY_TRY(count, fields.number(before + "jobs"));
  quota.share = share;
  quota.memory = memory;
  quota.jobs = count;
  return quota;
}

void write_quota(json::object& document, const jobs::Quota& quota, const std::string& before) {
  document[before + "gpu"] = text_or_null(quota.share);
  document[before + "memory"] = text_or_null(quota.memory);
  document[before + "jobs"] = number_or_null(quota.jobs);
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
  write_quota(document, settings.quota, "");
  write_quota(document, settings.per_user, "user_");
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
  DIVVY_TRY(fields, JsonFields::parse(text));
  jobs::QueueSettings settings;
  settings.path = std::move(path);
  DIVVY_TRY(quota, read_quota(fields, ""));
  settings.quota = quota;
  DIVVY_TRY(per_user, read_quota(fields, "user_"));
  settings.per_user = per_user;
  DIVVY_TRY(borrow, fields.flag("borrow"));
  settings.may_borrow = borrow.value_or(true);
  DIVVY_TRY(most, fields.share("most_gpu"));
  settings.most_share = most;
  DIVVY_TRY(weight, fields.number("weight"));
  settings.weight = weight.value_or(1);
  DIVVY_TRY(usual, fields.seconds("default_time_limit"));
  DIVVY_TRY(longest, fields.seconds("max_time_limit"));
  settings.time = {usual, longest};
  DIVVY_TRY(after, fields.seconds("idle_after"));
  DIVVY_TRY(warning, fields.seconds("idle_warning"));
  if (warning && !after) {
    return err(ErrorCode::kInvalidArgument,
               "\"idle_warning\" means nothing without \"idle_after\"");
  }
  if (after) settings.idle = jobs::IdlePolicy{*after, warning.value_or(model::Seconds(0))};
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
  jobs::Settings alone;
  alone.queues = {settings};
  DIVVY_RETURN_IF_ERROR(jobs::check(alone));
  return settings;
}

std::string write_user_settings(const jobs::UserSettings& settings) {
  json::object document;
  write_quota(document, settings.most, "");
  document["weight"] = settings.weight;
  return json::serialize(document);
}

Result<jobs::UserSettings> read_user_settings(std::string name, std::string_view text) {
  DIVVY_TRY(fields, JsonFields::parse(text));
  jobs::UserSettings settings;
  settings.name = std::move(name);
  DIVVY_TRY(most, read_quota(fields, ""));
  settings.most = most;
  DIVVY_TRY(weight, fields.number("weight"));
  settings.weight = weight.value_or(1);
  DIVVY_RETURN_IF_ERROR(fields.nothing_left());
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
