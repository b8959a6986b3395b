#include <boost/json.hpp>
#include <chrono>

#include "agent/waiting.h"
#include "api/answers.h"
#include "api/gpu_documents.h"
#include "api/handlers.h"
#include "api/requests.h"
#include "api/slice_requests.h"
#include "base/log.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kPatience{10};

Result<json::value> parsed(const Result<agent::Document>& document) {
  if (!document) return err(document.error());
  boost::system::error_code code;
  json::value value = json::parse(document->json, code);
  if (code) return err(ErrorCode::kInternal, "the machine's answer is no JSON");
  return value;
}

// As the document of one machine; an array is that of all machines together.
Result<json::value> view(agent::Agent& agent, agent::View what, const std::string& name = {}) {
  return parsed(agent::ask_and_wait(agent, agent::ViewOrder{what, name}, kPatience));
}

Result<json::array> items(const Parts& parts, agent::View what) {
  json::array all;
  for (agent::Agent* const agent : parts.agents.all()) {
    DIVVY_TRY(some, view(*agent, what));
    for (json::value& one : some.as_array()) all.push_back(std::move(one));
  }
  return all;
}

// The machine that has it; the last error where none has.
Result<agent::Agent*> find(const Parts& parts, agent::View what, const std::string& name) {
  Result<agent::Agent*> found = err(ErrorCode::kNotFound, "there is no machine");
  for (agent::Agent* const agent : parts.agents.all()) {
    const auto seen = view(*agent, what, name);
    if (seen) return agent;
    found = err(seen.error());
  }
  return found;
}

Answer get(const Parts& parts, agent::View what, const std::string& name, std::string_view kind) {
  DIVVY_TRY(agent, find(parts, what, name));
  DIVVY_TRY(document, view(*agent, what, name));
  return answer(200, headed(kind, std::move(document).as_object()));
}

json::object granted_document(std::string_view kind, GrantedSlices granted) {
  json::object document = headed(kind, std::move(granted.document).as_object());
  json::object environment;
  for (const auto& [name, value] : granted.environment) environment[name] = value;
  document["environment"] = std::move(environment);
  document["job"] = granted.job.value();
  return document;
}

Answer give_back(const Call& call, const std::string& tenant, bool held_only) {
  DIVVY_TRY(agent,
            find(call.parts, held_only ? agent::View::kSlice : agent::View::kTenant, tenant));
  DIVVY_RETURN_IF_ERROR(
      agent::ask_and_wait(*agent, agent::GiveBackOrder{tenant, held_only, call.as}, kPatience));
  return answer(200, headed("Released"));
}

// With what the body says.
Answer set_cordon(const Call& call, agent::CordonOrder order) {
  DIVVY_TRY(request, parse_cordon_request(call.request.body));
  if (request.deadline_seconds && order.cordoned && !order.drain) {
    return err(ErrorCode::kInvalidArgument,
               "a cordon ends nobody and has no deadline; drain the GPU instead");
  }
  order.reason = request.reason;
  if (request.deadline_seconds) order.end_after_seconds = *request.deadline_seconds;
  Result<agent::Done> done = err(ErrorCode::kNotFound, "there is no machine");
  for (agent::Agent* const agent : call.parts.agents.all()) {
    done = agent::ask_and_wait(*agent, order, kPatience);
    if (done || done.error().code != ErrorCode::kNotFound) break;
  }
  if (!done) return err(done.error());
  return list_gpus(call);
}

}  // namespace

// --- Looking ---

Answer get_node(const Call& call) {
  DIVVY_TRY(document, view(call.parts.agents.here(), agent::View::kNode));
  json::object whole = headed("Node", std::move(document).as_object());
  whole["waiting"] = call.parts.dispatcher.waiting();
  return answer(200, whole);
}

Answer get_stats(const Call& call) {
  DIVVY_TRY(here, view(call.parts.agents.here(), agent::View::kNode));
  json::array gpus;
  for (agent::Agent* const agent : call.parts.agents.all()) {
    DIVVY_TRY(machine, view(*agent, agent::View::kNode));
    for (json::value& gpu : machine.as_object()["gpus"].as_array()) {
      gpu.as_object()["node"] = agent->node();
      gpus.push_back(std::move(gpu));
    }
  }
  DIVVY_TRY(tenants, items(call.parts, agent::View::kTenants));
  json::object document = headed("Stats");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  document["unixMilliseconds"] = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  document["hostname"] = here.as_object()["hostname"];
  document["simulated"] = here.as_object()["simulated"];
  document["waiting"] = call.parts.dispatcher.waiting();
  document["gpus"] = std::move(gpus);
  document["tenants"] = std::move(tenants);
  return answer(200, document);
}

Answer list_tenants(const Call& call) {
  DIVVY_TRY(all, items(call.parts, agent::View::kTenants));
  json::object document = listed("TenantList", std::move(all));
  document["waiting"] = call.parts.dispatcher.waiting();
  return answer(200, document);
}

Answer list_slices(const Call& call) {
  DIVVY_TRY(all, items(call.parts, agent::View::kSlices));
  return answer(200, listed("SliceList", std::move(all)));
}

Answer get_tenant(const Call& call, const std::string& tenant) {
  return get(call.parts, agent::View::kTenant, tenant, "Tenant");
}

Answer get_slice(const Call& call, const std::string& name) {
  return get(call.parts, agent::View::kSlice, name, "Slice");
}

Answer list_gpus(const Call& call) {
  json::object document = headed("GpuHealthList");
  json::array all;
  for (agent::Agent* const agent : call.parts.agents.all()) {
    DIVVY_TRY(some, view(*agent, agent::View::kGpus));
    if (agent == &call.parts.agents.here()) document["sampler"] = some.as_object()["sampler"];
    for (json::value& one : some.as_object()["items"].as_array()) all.push_back(std::move(one));
  }
  document["items"] = std::move(all);
  return answer(200, document);
}

// --- Changing ---

Answer grant_slices(const Call& call) {
  DIVVY_TRY(wanted, parse_grant_request(call.request.body));
  // The process is the caller's, whoever the token says that they are.
  auto granted = ask_for_slices(call, std::move(wanted),
                                {call.caller.pid(), call.caller.uid(), call.caller.gid()});
  if (!granted) return granted.error();
  std::string path = fmt::format("/v1/jobs/{}", granted->job);
  return created(std::move(path), granted_document("Grant", *std::move(granted)));
}

Answer hold_slice(const Call& call) {
  DIVVY_TRY(wanted, parse_grant_request(call.request.body));
  if (wanted.spec.name.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "\"name\" is missing: containers ask for the slice by its name");
  }
  if (wanted.wait) {
    return err(ErrorCode::kUnsupported, "a slice that is held by its name cannot wait");
  }
  wanted.spec.holder = model::Holder::kSlice;
  auto granted = ask_for_slices(call, std::move(wanted), call.as);
  if (!granted) return granted.error();
  const std::string device = granted->device;
  std::string path = fmt::format("/v1/jobs/{}", granted->job);
  json::object document = granted_document("Slice", *std::move(granted));
  document["device"] = device;
  return created(std::move(path), document);
}

// The queue first, which knows what others may have; what the machine then refuses is taken back.
Answer change_tenant(const Call& call, const std::string& tenant) {
  DIVVY_TRY(wanted, parse_change_request(call.request.body));
  DIVVY_TRY(agent, find(call.parts, agent::View::kTenant, tenant));
  DIVVY_TRY(proposed,
            agent::ask_and_wait(*agent, agent::ProposeOrder{tenant, wanted, call.as}, kPatience));
  const model::JobId job = proposed.key.job;
  DIVVY_RETURN_IF_ERROR(call.parts.dispatcher.resize(job, proposed.after, call.who.name));
  const auto changed = agent::ask_and_wait(
      *agent, agent::ChangeOrder{proposed.tenant, proposed.after, wanted.job_class}, kPatience);
  if (!changed) {
    if (const Status back = call.parts.dispatcher.resize(job, proposed.before, call.who.name);
        !back) {
      log_error("queue counts with slices that were not changed",
                {{"job", job.value()}, {"reason", back.error().message}});
    }
    return err(changed.error());
  }
  return get(call.parts, agent::View::kTenant, std::to_string(proposed.tenant.value()), "Tenant");
}

Answer release_tenant(const Call& call, const std::string& tenant) {
  return give_back(call, tenant, false);
}

Answer release_slice(const Call& call, const std::string& name) {
  return give_back(call, name, true);
}

Answer cordon_gpu(const Call& call, const std::string& gpu) {
  agent::CordonOrder order{.gpu = gpu};
  order.cordoned = true;
  return set_cordon(call, std::move(order));
}

Answer drain_gpu(const Call& call, const std::string& gpu) {
  agent::CordonOrder order{.gpu = gpu};
  order.cordoned = true;
  order.drain = true;
  return set_cordon(call, std::move(order));
}

Answer uncordon_gpu(const Call& call, const std::string& gpu) {
  agent::CordonOrder order{.gpu = gpu};
  order.cordoned = false;
  return set_cordon(call, std::move(order));
}

}  // namespace divvy::api
