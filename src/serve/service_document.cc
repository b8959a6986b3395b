#include "serve/service_document.h"

#include "model/job_document.h"
#include "model/json_fields.h"
#include "model/seconds.h"

namespace divvy::serve {
namespace {

namespace json = boost::json;
using model::JsonFields;

std::int64_t count(WallTime time) { return time.time_since_epoch().count(); }

json::value count_or_null(const std::optional<WallTime>& time) {
  return time ? json::value(count(*time)) : json::value(nullptr);
}

void read_time(JsonFields& fields, std::string_view name, WallTime& into) {
  std::int64_t nanoseconds = 0;
  fields.read(name, nanoseconds);
  into = WallTime(Duration(nanoseconds));
}

void read_time(JsonFields& fields, std::string_view name, std::optional<WallTime>& into) {
  if (!fields.has(name)) return;
  read_time(fields, name, into.emplace());
}

json::object settings_document(const Settings& settings) {
  const Scale& scale = settings.scale;
  return {{"port", settings.port},
          {"ready", settings.ready},
          {"ready_within", model::seconds_text(settings.ready_within)},
          {"drain", model::seconds_text(settings.drain)},
          {"wait", model::seconds_text(settings.wait)},
          {"replicas", json::object{{"least", scale.least},
                                    {"most", scale.most},
                                    {"in_flight", scale.in_flight},
                                    {"latency_ms", scale.latency_ms},
                                    {"gpu_use", scale.gpu_use},
                                    {"calm", model::seconds_text(scale.calm)},
                                    {"idle", model::seconds_text(scale.idle)}}}};
}

void read_settings(JsonFields& fields, Settings& settings) {
  fields.read("port", settings.port);
  fields.read("ready", settings.ready);
  fields.read("ready_within", settings.ready_within);
  fields.read("drain", settings.drain);
  fields.read("wait", settings.wait);
  fields.inside("replicas", [&](JsonFields& inside) {
    Scale& scale = settings.scale;
    inside.read("least", scale.least);
    inside.read("most", scale.most);
    inside.read("in_flight", scale.in_flight);
    inside.read("latency_ms", scale.latency_ms);
    inside.read("gpu_use", scale.gpu_use);
    inside.read("calm", scale.calm);
    inside.read("idle", scale.idle);
  });
}

// An object inside of a document that has a reader of its own.
struct Text {
  std::string json;
};
model::Refusal take(const json::value& value, Text& into) {
  into.json = json::serialize(value);
  return {};
}

Result<model::JobSpec> read_job(const Text& text) {
  return with_context(model::read_job_spec(text.json), "job");
}

json::object version_document(const Version& version) {
  return {{"number", version.number},
          {"job", json::parse(model::write_job_spec(version.job))},
          {"made", count(version.made)},
          {"failures", version.failures},
          {"failed_at", count_or_null(version.failed_at)},
          {"rejected", version.rejected}};
}

void read_version(JsonFields& fields, Service& service) {
  VersionNumber number = 0;
  Text job;
  WallTime made;
  fields.need("number", number);
  fields.need("job", job);
  read_time(fields, "made", made);
  auto spec = read_job(job);
  if (!spec) {
    fields.refuse("", spec.error().message);
    return;
  }
  Version& version = service.versions.emplace_back(number, *std::move(spec), made);
  fields.read("failures", version.failures);
  read_time(fields, "failed_at", version.failed_at);
  fields.read("rejected", version.rejected);
}

json::array replicas_document(const Service& service) {
  json::array list;
  for (const auto& [job, known] : service.replicas) {
    list.push_back(json::object{{"job", job.value()},
                                {"version", known.version},
                                {"ready", known.ready},
                                {"turned", count(known.turned)},
                                {"retiring", count_or_null(known.retiring)}});
  }
  return list;
}

void read_replica(JsonFields& fields, Service& service) {
  model::JobId job;
  Known known;
  fields.need("job", job);
  fields.read("version", known.version);
  fields.read("ready", known.ready);
  read_time(fields, "turned", known.turned);
  read_time(fields, "retiring", known.retiring);
  service.replicas.insert_or_assign(job, known);
}

void read_parts(JsonFields& fields, Service& service) {
  fields.need("name", service.name);
  fields.need("owner", service.owner);
  read_time(fields, "made", service.made);
  fields.inside("settings", [&](JsonFields& inside) { read_settings(inside, service.settings); });
  fields.read_list("versions", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](JsonFields& inside) { read_version(inside, service); });
  });
  fields.need("stable", service.stable);
  fields.inside("candidate", [&](JsonFields& inside) {
    Candidate& candidate = service.candidate.emplace();
    inside.read("version", candidate.version);
    inside.read("weight", candidate.weight);
  });
  fields.read("desired", service.desired);
  fields.read_list("replicas", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](JsonFields& inside) { read_replica(inside, service); });
  });
  fields.read_list("history", [&](const json::value& item, const std::string& place) {
    fields.inside(item, place, [&](JsonFields& inside) {
      Happening& happening = service.history.emplace_back();
      read_time(inside, "at", happening.at);
      inside.read("text", happening.text);
    });
  });
  fields.read("deleting", service.deleting);
}

}  // namespace

std::string write_service(const Service& service) {
  json::array versions;
  for (const Version& version : service.versions) versions.push_back(version_document(version));
  json::array history;
  for (const Happening& happening : service.history) {
    history.push_back(json::object{{"at", count(happening.at)}, {"text", happening.text}});
  }
  json::value candidate(nullptr);
  if (service.candidate) {
    candidate = json::object{{"version", service.candidate->version},
                             {"weight", service.candidate->weight}};
  }
  return json::serialize(json::object{{"name", service.name},
                                      {"owner", service.owner},
                                      {"made", count(service.made)},
                                      {"settings", settings_document(service.settings)},
                                      {"versions", std::move(versions)},
                                      {"stable", service.stable},
                                      {"candidate", std::move(candidate)},
                                      {"desired", service.desired},
                                      {"replicas", replicas_document(service)},
                                      {"history", std::move(history)},
                                      {"deleting", service.deleting}});
}

Result<Service> read_service(std::string_view text) {
  Service service;
  DIVVY_RETURN_IF_ERROR(
      model::read_own_json("a service in the store", text, model::Unread::kLeft,
                           [&](JsonFields& fields) { read_parts(fields, service); }));
  if (const Status good = check(service); !good) {
    return err(ErrorCode::kDataLoss, "a service in the store: {}", good.error().message);
  }
  return service;
}

Result<NewService> read_new_service(std::string_view text) {
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  std::string name;
  Settings settings;
  Text job;
  fields.need("name", name);
  fields.need("port", settings.port);
  fields.need("job", job);
  read_settings(fields, settings);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_TRY(spec, read_job(job));
  return NewService{std::move(name), std::move(settings), std::move(spec)};
}

Result<Settings> read_settings_change(Settings settings, std::string_view text) {
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  read_settings(fields, settings);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  return settings;
}

Result<NewVersion> read_new_version(std::string_view text) {
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  Text job;
  std::uint32_t weight = 100;
  fields.need("job", job);
  fields.read("weight", weight);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_TRY(spec, read_job(job));
  return NewVersion{std::move(spec), weight};
}

Result<std::uint32_t> read_promotion(std::string_view text) {
  std::uint32_t weight = 100;
  if (text.empty()) return weight;
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  fields.read("weight", weight);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  return weight;
}

Result<std::optional<VersionNumber>> read_roll_back(std::string_view text) {
  std::optional<VersionNumber> to;
  if (text.empty()) return to;
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  fields.read("to", to);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  return to;
}

}  // namespace divvy::serve
