#include <algorithm>
#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/job_documents.h"
#include "model/job_document.h"
#include "serve/service_document.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using control::ReplicaSeen;
using control::ServiceSeen;
using serve::Service;

std::int64_t milliseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Result<control::Services*> services_of(const Call& call) {
  if (call.parts.services != nullptr) return call.parts.services;
  return err(ErrorCode::kUnsupported, "this daemon keeps no services");
}

bool is_own(const Call& call, const Service& service) {
  return call.who.name == service.owner || may(call.who, Permission::kAdmin).has_value();
}

Status check_own(const Call& call, const Service& service) {
  if (is_own(call, service)) return {};
  return err(ErrorCode::kPermissionDenied, "the service {} is {}'s; only they and admins change it",
             service.name, service.owner);
}

std::string_view state_of(const Service& service, std::size_t ready) {
  if (service.deleting) return "deleting";
  if (service.candidate && service.candidate->weight == 100) return "updating";
  if (service.desired == 0 && service.replicas.empty()) return "asleep";
  return ready >= service.desired ? "ready" : "starting";
}

std::string_view state_of(const Service& service, const serve::Version& version) {
  if (version.number == service.stable) return "stable";
  if (service.candidate && service.candidate->version == version.number) return "candidate";
  return version.rejected.empty() ? "replaced" : "rejected";
}

json::object version_document(const Service& service, const serve::Version& version, bool inside) {
  std::uint32_t all = 0;
  std::uint32_t ready = 0;
  for (const auto& [job, known] : service.replicas) {
    if (known.version != version.number) continue;
    ++all;
    if (known.ready) ++ready;
  }
  json::object document{{"number", version.number},
                        {"state", state_of(service, version)},
                        {"madeUnixMilliseconds", milliseconds(version.made)},
                        {"failures", version.failures},
                        {"rejected", version.rejected},
                        {"replicas", all},
                        {"readyReplicas", ready}};
  if (inside) document["spec"] = json::parse(model::write_job_spec(version.job));
  return document;
}

json::array replica_documents(const Service& service, const ServiceSeen& seen) {
  const auto weights = serve::weights(service);
  json::array items;
  for (const auto& [job, known] : service.replicas) {
    const auto found = std::ranges::find(seen.replicas, job,
                                         [](const ReplicaSeen& one) { return one.replica.job; });
    const ReplicaSeen one = found == seen.replicas.end() ? ReplicaSeen() : *found;
    std::string_view state = "starting";
    if (known.retiring) {
      state = one.replica.phase == serve::Phase::kStopping ? "stopping" : "draining";
    } else if (known.ready) {
      state = "ready";
    } else if (one.replica.phase == serve::Phase::kWaiting) {
      state = "waiting";
    } else if (one.replica.phase == serve::Phase::kStopping) {
      state = "stopping";
    }
    items.push_back(json::object{{"job", job.value()},
                                 {"version", known.version},
                                 {"state", state},
                                 {"port", one.port},
                                 {"weight", weights.contains(job) ? weights.at(job) : 0},
                                 {"inFlight", one.replica.in_flight},
                                 {"requests", one.requests},
                                 {"errors", one.errors}});
  }
  return items;
}

json::object service_document(const Call& call, const Service& service) {
  const ServiceSeen seen = call.parts.services->seen(service.name);
  const bool inside = is_own(call, service);
  const serve::Settings& settings = service.settings;
  const serve::Scale& scale = settings.scale;
  const auto ready = static_cast<std::size_t>(std::ranges::count_if(
      service.replicas, [](const auto& known) { return known.second.ready; }));
  json::array versions;
  for (const serve::Version& version : service.versions) {
    versions.push_back(version_document(service, version, inside));
  }
  json::value candidate(nullptr);
  if (service.candidate) {
    candidate = json::object{{"version", service.candidate->version},
                             {"weight", service.candidate->weight}};
  }
  json::object document{{"name", service.name},
                        {"owner", service.owner},
                        {"state", state_of(service, ready)},
                        {"trouble", seen.trouble},
                        {"address", call.parts.services_address},
                        {"port", settings.port},
                        {"madeUnixMilliseconds", milliseconds(service.made)},
                        {"ready", settings.ready},
                        {"readyWithinSeconds", settings.ready_within.count()},
                        {"drainSeconds", settings.drain.count()},
                        {"waitSeconds", settings.wait.count()},
                        {"scale", json::object{{"least", scale.least},
                                               {"most", scale.most},
                                               {"inFlight", scale.in_flight},
                                               {"latencyMs", scale.latency_ms},
                                               {"gpuUsePercent", scale.gpu_use},
                                               {"calmSeconds", scale.calm.count()},
                                               {"idleSeconds", scale.idle.count()}}},
                        {"desiredReplicas", service.desired},
                        {"readyReplicas", ready},
                        {"inFlight", seen.in_flight},
                        {"stable", service.stable},
                        {"candidate", std::move(candidate)},
                        {"versions", std::move(versions)},
                        {"replicas", replica_documents(service, seen)}};
  if (inside) {
    json::array history;
    for (const serve::Happening& step : service.history) {
      history.push_back(
          json::object{{"unixMilliseconds", milliseconds(step.at)}, {"text", step.text}});
    }
    document["history"] = std::move(history);
  }
  return document;
}

net::HttpResponse answer_with(const Call& call, const Service& service, int status = 200) {
  return answer(status, headed("Service", service_document(call, service)));
}

// A change of their own service by whoever asks, or by an admin.
Answer change(const Call& call, const std::string& name, const control::Services::Change& how,
              int status = 200) {
  DIVVY_TRY(services, services_of(call));
  DIVVY_TRY(service, services->change(name, [&](Service& one, WallTime now) -> Status {
    DIVVY_RETURN_IF_ERROR(check_own(call, one));
    return how(one, now);
  }));
  return answer_with(call, service, status);
}

}  // namespace

Answer list_services(const Call& call) {
  DIVVY_TRY(services, services_of(call));
  DIVVY_TRY(all, services->list());
  json::array items;
  for (const Service& service : all) items.push_back(service_document(call, service));
  return answer(200, listed("ServiceList", std::move(items)));
}

Answer make_service(const Call& call) {
  DIVVY_TRY(services, services_of(call));
  DIVVY_TRY(wanted, serve::read_new_service(call.request.body));
  DIVVY_TRY(made, services->make(std::move(wanted.name), call.who.name, std::move(wanted.settings),
                                 std::move(wanted.job)));
  return created("/v1/services/" + made.name, headed("Service", service_document(call, made)));
}

Answer get_service(const Call& call, const std::string& name) {
  DIVVY_TRY(services, services_of(call));
  DIVVY_TRY(service, services->find(name));
  return answer_with(call, service);
}

Answer change_service(const Call& call, const std::string& name) {
  return change(call, name, [&](Service& service, WallTime now) -> Status {
    DIVVY_TRY(settings, serve::read_settings_change(service.settings, call.request.body));
    return serve::change_settings(service, std::move(settings), call.who.name, now);
  });
}

Answer update_service(const Call& call, const std::string& name) {
  DIVVY_TRY(services, services_of(call));
  DIVVY_TRY(wanted, serve::read_new_version(call.request.body));
  DIVVY_TRY(there, services->find(name));
  DIVVY_RETURN_IF_ERROR(check_own(call, there));
  DIVVY_RETURN_IF_ERROR(serve::check_replica(wanted.job));
  DIVVY_RETURN_IF_ERROR(services->could_run(there, wanted.job));
  return change(
      call, name,
      [&](Service& service, WallTime now) {
        return serve::update(service, wanted.job, wanted.weight, call.who.name, now);
      },
      201);
}

Answer promote_service(const Call& call, const std::string& name) {
  DIVVY_TRY(weight, serve::read_promotion(call.request.body));
  return change(call, name, [&](Service& service, WallTime now) {
    return serve::promote(service, weight, call.who.name, now);
  });
}

Answer roll_back_service(const Call& call, const std::string& name) {
  DIVVY_TRY(to, serve::read_roll_back(call.request.body));
  return change(call, name, [&](Service& service, WallTime now) {
    return serve::roll_back(service, to, call.who.name, now);
  });
}

Answer delete_service(const Call& call, const std::string& name) {
  return change(call, name, [&](Service& service, WallTime now) -> Status {
    if (!service.deleting) service.tell(now, "deleted by " + call.who.name);
    service.deleting = true;
    return {};
  });
}

}  // namespace divvy::api
