#include "api/machine_routes.h"

#include <boost/json.hpp>
#include <chrono>

#include "agent/waiting.h"
#include "api/answers.h"
#include "api/gpu_documents.h"
#include "api/requests.h"
#include "base/log.h"
#include "base/text.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;

constexpr std::chrono::seconds kPatience{10};

Error not_allowed(const net::HttpRequest& request) {
  return {ErrorCode::kUnsupported,
          fmt::format("{} cannot be done to {}", escape_for_terminal(request.method.substr(0, 20)),
                      escape_for_terminal(request.path.substr(0, 100)))};
}

HttpResponse method_not_allowed(const net::HttpRequest& request) {
  return problem(problem_document(405, "method not allowed", not_allowed(request).message));
}

HttpResponse not_here(const net::HttpRequest& request) {
  return problem(problem_document(
      404, "not found",
      fmt::format("there is no {} here", escape_for_terminal(request.path.substr(0, 100)))));
}

// As whom somebody acts on the machines: on the socket the kernel has said who it is.
Result<agent::LocalCaller> acting(const model::Person& who, const net::Caller& caller) {
  if (caller.local() && caller.uid() == who.uid) {
    return agent::LocalCaller{caller.pid(), caller.uid(), caller.gid()};
  }
  if (who.role == model::Role::kAdmin) return agent::LocalCaller{};
  if (who.uid) return agent::LocalCaller{0, *who.uid, *who.uid};
  return err(ErrorCode::kPermissionDenied,
             "{} is no user of the machine; an admin makes them one with `divvy user set {} --uid "
             "UID`",
             who.name, who.name);
}

Result<json::value> parsed(const Result<agent::Document>& document) {
  if (!document) return err(document.error());
  boost::system::error_code code;
  json::value value = json::parse(document->json, code);
  if (code) return err(ErrorCode::kInternal, "the machine's answer is no JSON");
  return value;
}

json::object with_head(std::string_view kind, const json::value& document) {
  json::object whole = headed(kind);
  for (const auto& entry : document.as_object()) whole[entry.key()] = entry.value();
  return whole;
}

}  // namespace

bool MachineRoutes::handles(const std::string& path) {
  const auto words = split(std::string_view(path).substr(path.empty() ? 0 : 1), '/');
  if (words.size() < 2 || words[0] != "v1") return false;
  for (const std::string_view word : {"node", "stats", "tenants", "slices", "gpus", "events"}) {
    if (words[1] == word) return true;
  }
  return false;
}

HttpResponse MachineRoutes::handle(const net::HttpRequest& request,
                                   const net::Caller& caller) const {
  auto who = parts_.people.identify(request, caller);
  if (!who) return People::refusal(who.error());
  const Answer answered = route({request, caller, *std::move(who)});
  return answered ? *answered : problem(answered.error());
}

MachineRoutes::Answer MachineRoutes::route(const Call& call) const {
  const net::HttpRequest& request = call.request;
  const std::string& method = request.method;
  const auto words = split(std::string_view(request.path).substr(1), '/');
  const std::string_view what = words[1];
  if (words.size() == 2 && method == "GET") {
    if (what == "node") return node();
    if (what == "stats") return stats();
    if (what == "tenants") return list(agent::View::kTenants, "TenantList");
    if (what == "slices") return list(agent::View::kSlices, "SliceList");
    if (what == "gpus") return gpus();
    if (what == "events") return events(call);
  }
  if (words.size() == 2 && method == "POST") {
    if (what == "tenants") return grant(call);
    if (what == "slices") return hold(call);
  }
  if (words.size() == 2) return method_not_allowed(request);
  const std::string name(words[2]);
  if (words.size() == 3 && !name.empty() && what == "tenants") return of_tenant(call, name);
  if (words.size() == 3 && !name.empty() && what == "slices") return of_slice(call, name);
  if (words.size() == 4 && what == "gpus") {
    return method == "POST" ? cordon(call, name, std::string(words[3]))
                            : method_not_allowed(request);
  }
  return not_here(request);
}

MachineRoutes::Answer MachineRoutes::of_tenant(const Call& call, const std::string& tenant) const {
  const std::string& method = call.request.method;
  if (method == "GET") return get(agent::View::kTenant, tenant, "Tenant");
  if (method == "PATCH") return change(call, tenant);
  if (method == "DELETE") return give_back(call, tenant, false);
  return method_not_allowed(call.request);
}

MachineRoutes::Answer MachineRoutes::of_slice(const Call& call, const std::string& name) const {
  const std::string& method = call.request.method;
  if (method == "GET") return get(agent::View::kSlice, name, "Slice");
  if (method == "DELETE") return give_back(call, name, true);
  return method_not_allowed(call.request);
}

// --- Looking ---

Result<json::value> MachineRoutes::view(agent::Agent& agent, agent::View what,
                                        const std::string& name) const {
  return parsed(agent::ask_and_wait(agent, agent::ViewOrder{what, name}, kPatience));
}

Result<json::array> MachineRoutes::items(agent::View what) const {
  json::array all;
  for (agent::Agent* const agent : parts_.agents.all()) {
    DIVVY_TRY(some, view(*agent, what));
    for (json::value& one : some.as_array()) all.push_back(std::move(one));
  }
  return all;
}

Result<agent::Agent*> MachineRoutes::find(agent::View what, const std::string& name) const {
  Result<agent::Agent*> found = err(ErrorCode::kNotFound, "there is no machine");
  for (agent::Agent* const agent : parts_.agents.all()) {
    const auto seen = view(*agent, what, name);
    if (seen) return agent;
    found = err(seen.error());
  }
  return found;
}

MachineRoutes::Answer MachineRoutes::node() const {
  DIVVY_TRY(document, view(parts_.agents.here(), agent::View::kNode));
  json::object whole = with_head("Node", document);
  whole["waiting"] = parts_.dispatcher.waiting();
  return answer(200, whole);
}

MachineRoutes::Answer MachineRoutes::stats() const {
  DIVVY_TRY(here, view(parts_.agents.here(), agent::View::kNode));
  json::array gpus;
  for (agent::Agent* const agent : parts_.agents.all()) {
    DIVVY_TRY(machine, view(*agent, agent::View::kNode));
    for (json::value& gpu : machine.as_object()["gpus"].as_array()) gpus.push_back(std::move(gpu));
  }
  DIVVY_TRY(tenants, items(agent::View::kTenants));
  json::object document = headed("Stats");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  document["unixMilliseconds"] = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  document["hostname"] = here.as_object()["hostname"];
  document["simulated"] = here.as_object()["simulated"];
  document["waiting"] = parts_.dispatcher.waiting();
  document["gpus"] = std::move(gpus);
  document["tenants"] = std::move(tenants);
  return answer(200, document);
}

MachineRoutes::Answer MachineRoutes::list(agent::View what, std::string_view kind) const {
  DIVVY_TRY(all, items(what));
  json::object document = headed(kind);
  document["items"] = std::move(all);
  if (what == agent::View::kTenants) document["waiting"] = parts_.dispatcher.waiting();
  return answer(200, document);
}

MachineRoutes::Answer MachineRoutes::get(agent::View what, const std::string& name,
                                         std::string_view kind) const {
  DIVVY_TRY(agent, find(what, name));
  DIVVY_TRY(document, view(*agent, what, name));
  return answer(200, with_head(kind, document));
}

MachineRoutes::Answer MachineRoutes::gpus() const {
  json::object document = headed("GpuHealthList");
  json::array all;
  for (agent::Agent* const agent : parts_.agents.all()) {
    DIVVY_TRY(some, view(*agent, agent::View::kGpus));
    if (agent == &parts_.agents.here()) document["sampler"] = some.as_object()["sampler"];
    for (json::value& one : some.as_object()["items"].as_array()) all.push_back(std::move(one));
  }
  document["items"] = std::move(all);
  return answer(200, document);
}

MachineRoutes::Answer MachineRoutes::events(const Call& call) const {
  DIVVY_TRY(wanted, parse_events_query(call.request.query));
  store::EventFilter filter;
  filter.after = wanted.since;
  filter.about = store::EventFilter::About::kMachines;
  filter.limit = store::EventFilter::kMostPerPage;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(wanted.wait_seconds);
  const EventBell::Listener listener(parts_.bell);
  json::object document = headed("EventList");
  for (;;) {
    listener.clear();
    std::uint64_t last = 0;
    const auto found = parts_.database.read(
        [&](store::Connection& connection) -> Result<std::vector<store::EventRow>> {
          store::EventTable table(connection);
          DIVVY_TRY(newest, table.last());
          last = newest;
          return table.list(filter);
        });
    if (!found) return err(found.error());
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const bool over =
        left.count() <= 0 || call.caller.wait_for(listener.fd(), {}) == net::Caller::Wait::kGone;
    if (!found->empty() || over) {
      json::array items;
      for (const store::EventRow& event : *found) items.push_back(event_document(event));
      document["last"] = last;
      document["items"] = std::move(items);
      return answer(200, document);
    }
    (void)call.caller.wait_for(listener.fd(), left);
  }
}

// --- Changing ---

MachineRoutes::Answer MachineRoutes::grant(const Call& call) const {
  if (!call.caller.local()) {
    return err(ErrorCode::kUnsupported,
               "slices for a process are for those on the machine; over the network submit a job");
  }
  DIVVY_TRY(wanted, parse_grant_request(call.request.body));
  auto granted = asker_.ask(std::move(wanted), call.who, call.caller,
                            {call.caller.pid(), call.caller.uid(), call.caller.gid()});
  if (!granted) return granted.error();
  json::object document = with_head("Grant", granted->document);
  document["environment"] = json::object();
  for (const auto& [name, value] : granted->environment) {
    document["environment"].as_object()[name] = value;
  }
  document["job"] = granted->job.value();
  return answer(201, document);
}

MachineRoutes::Answer MachineRoutes::hold(const Call& call) const {
  DIVVY_TRY(wanted, parse_grant_request(call.request.body));
  if (wanted.spec.name.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "\"name\" is missing: containers ask for the slice by its name");
  }
  if (wanted.wait) {
    return err(ErrorCode::kUnsupported, "a slice that is held by its name cannot wait");
  }
  wanted.spec.holder = model::Holder::kSlice;
  DIVVY_TRY(as, acting(call.who, call.caller));
  auto granted = asker_.ask(std::move(wanted), call.who, call.caller, as);
  if (!granted) return granted.error();
  json::object document = with_head("Slice", granted->document);
  document["environment"] = json::object();
  for (const auto& [name, value] : granted->environment) {
    document["environment"].as_object()[name] = value;
  }
  document["job"] = granted->job.value();
  document["device"] = granted->device;
  return answer(201, document);
}

// The queue first, which knows what others may have; what the machine then refuses is taken back.
MachineRoutes::Answer MachineRoutes::change(const Call& call, const std::string& tenant) const {
  DIVVY_TRY(wanted, parse_change_request(call.request.body));
  DIVVY_TRY(as, acting(call.who, call.caller));
  DIVVY_TRY(agent, find(agent::View::kTenant, tenant));
  DIVVY_TRY(proposed,
            agent::ask_and_wait(*agent, agent::ProposeOrder{tenant, wanted, as}, kPatience));
  const model::JobId job = proposed.key.job;
  DIVVY_RETURN_IF_ERROR(parts_.dispatcher.resize(job, proposed.after, call.who.name));
  const auto changed = agent::ask_and_wait(
      *agent, agent::ChangeOrder{proposed.tenant, proposed.after, wanted.job_class}, kPatience);
  if (!changed) {
    if (const Status back = parts_.dispatcher.resize(job, proposed.before, call.who.name); !back) {
      log_error("queue counts with slices that were not changed",
                {{"job", job.value()}, {"reason", back.error().message}});
    }
    return err(changed.error());
  }
  return get(agent::View::kTenant, std::to_string(proposed.tenant.value()), "Tenant");
}

MachineRoutes::Answer MachineRoutes::give_back(const Call& call, const std::string& tenant,
                                               bool held_only) const {
  DIVVY_TRY(as, acting(call.who, call.caller));
  DIVVY_TRY(agent, find(held_only ? agent::View::kSlice : agent::View::kTenant, tenant));
  DIVVY_RETURN_IF_ERROR(
      agent::ask_and_wait(*agent, agent::GiveBackOrder{tenant, held_only, as}, kPatience));
  return answer(200, headed("Released"));
}

MachineRoutes::Answer MachineRoutes::cordon(const Call& call, const std::string& gpu,
                                            const std::string& word) const {
  if (word != "cordon" && word != "drain" && word != "uncordon") {
    return problem(problem_document(
        404, "not found", "a GPU can be given the words cordon, drain and uncordon, no others"));
  }
  if (!may(call.who, Action::kAdminister, nullptr)) {
    return err(ErrorCode::kPermissionDenied,
               "only root and the user of divvyd may cordon, drain or uncordon GPUs; try sudo");
  }
  DIVVY_TRY(request, parse_cordon_request(call.request.body));
  if (request.deadline_seconds && word == "cordon") {
    return err(ErrorCode::kInvalidArgument,
               "a cordon ends nobody and has no deadline; drain the GPU instead");
  }
  agent::CordonOrder order{.gpu = gpu};
  order.cordoned = word != "uncordon";
  order.reason = request.reason;
  order.drain = word == "drain";
  if (request.deadline_seconds) order.end_after_seconds = *request.deadline_seconds;
  Result<agent::Done> done = err(ErrorCode::kNotFound, "there is no machine");
  for (agent::Agent* const agent : parts_.agents.all()) {
    done = agent::ask_and_wait(*agent, order, kPatience);
    if (done || done.error().code != ErrorCode::kNotFound) break;
  }
  if (!done) return err(done.error());
  return gpus();
}

}  // namespace divvy::api
