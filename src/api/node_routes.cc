#include "api/node_routes.h"

#include <boost/json.hpp>
#include <chrono>

#include "api/answers.h"
#include "api/documents.h"
#include "api/requests.h"
#include "api/slice_routes.h"
#include "base/text.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;

constexpr std::string_view kTenants = "/v1/tenants/";

node::Peer peer_of(const net::Caller& caller) { return {caller.pid(), caller.uid(), caller.gid()}; }

}  // namespace

HttpResponse NodeRoutes::handle(const net::HttpRequest& request, const net::Caller& caller) const {
  const std::string& path = request.path;
  const std::string& method = request.method;
  if (SliceRoutes::is_here(path)) return SliceRoutes(tenants_).handle(request, caller);
  if (path == "/v1/node" && method == "GET") return node();
  if (path == "/v1/stats" && method == "GET") return stats();
  if (path == "/v1/tenants" && method == "GET") return list();
  if (path == "/v1/tenants" && method == "POST") return grant(request.body, caller);
  if (path.starts_with(kTenants) && path.size() > kTenants.size()) {
    const std::string tenant = path.substr(kTenants.size());
    if (method == "GET") return get(tenant);
    if (method == "PATCH") return change(tenant, request.body, caller);
    if (method == "DELETE") return release(tenant, caller);
  }
  const bool known = path == "/v1/node" || path == "/v1/stats" || path == "/v1/tenants" ||
                     path.starts_with(kTenants);
  const std::string shown = escape_for_terminal(path.substr(0, 100));
  if (known) {
    return problem(problem_document(
        405, "method not allowed",
        fmt::format("{} cannot be done to {}", escape_for_terminal(method.substr(0, 20)), shown)));
  }
  return problem(problem_document(404, "not found", fmt::format("there is no {} here", shown)));
}

HttpResponse NodeRoutes::node() const {
  json::object document = headed("Node");
  document["version"] = version_;
  document["hostname"] = tenants_.node().hostname();
  document["simulated"] = tenants_.node().simulated();
  const auto& driver = tenants_.node().driver_version();
  document["driverVersion"] = driver ? json::value(*driver) : json::value(nullptr);
  document["waiting"] = tenants_.waiting();
  document["gpus"] = gpu_documents(tenants_.slices());
  return answer(200, document);
}

HttpResponse NodeRoutes::list() const {
  json::object document = headed("TenantList");
  json::array items;
  for (const node::TenantView& view : tenants_.list()) items.push_back(tenant_document(view));
  document["items"] = std::move(items);
  document["waiting"] = tenants_.waiting();
  return answer(200, document);
}

HttpResponse NodeRoutes::stats() const {
  json::object document = headed("Stats");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  document["unixMilliseconds"] = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  document["hostname"] = tenants_.node().hostname();
  document["simulated"] = tenants_.node().simulated();
  document["waiting"] = tenants_.waiting();
  json::array items;
  for (const node::TenantView& view : tenants_.list()) items.push_back(tenant_document(view));
  document["gpus"] = gpu_documents(tenants_.slices());
  document["tenants"] = std::move(items);
  return answer(200, document);
}

HttpResponse NodeRoutes::get(const std::string& tenant) const {
  const auto id = tenants_.find(tenant);
  if (!id) return problem(id.error());
  const auto view = tenants_.get(*id);
  if (!view) return problem(Error{ErrorCode::kNotFound, "the tenant is gone"});
  json::object document = headed("Tenant");
  for (auto& entry : tenant_document(*view)) document[entry.key()] = entry.value();
  return answer(200, document);
}

HttpResponse NodeRoutes::grant(const std::string& body, const net::Caller& caller) const {
  auto request = parse_grant_request(body, default_mode_);
  if (!request) return problem(request.error());
  request->ask.peer = peer_of(caller);
  if (!request->wait) {
    const auto granted = tenants_.grant(request->ask);
    if (!granted) return problem(granted.error());
    if (const auto* no_fit = std::get_if<node::NoFit>(&*granted)) {
      return problem(no_fit_document(*no_fit, tenants_.list()));
    }
    return answer(201, grant_document(std::get<node::Grant>(*granted)));
  }

  const auto granted = tenants_.grant_or_wait(request->ask);
  if (!granted) return problem(granted.error());
  if (const auto* no_fit = std::get_if<node::NoFit>(&*granted)) {
    return problem(no_fit_document(*no_fit, tenants_.list()));
  }
  if (const auto* now = std::get_if<node::Grant>(&*granted)) {
    return answer(201, grant_document(*now));
  }
  const auto& waiting = std::get<std::shared_ptr<node::WaitingAsk>>(*granted);
  const std::chrono::milliseconds patience = request->timeout_seconds
                                                 ? std::chrono::seconds(*request->timeout_seconds)
                                                 : std::chrono::milliseconds(-1);
  switch (caller.wait_for(waiting->ready(), patience)) {
    case net::Caller::Wait::kReady:
      break;
    case net::Caller::Wait::kGone:
      tenants_.give_up(waiting);
      return problem(Error{ErrorCode::kCancelled, "the caller is gone"});
    case net::Caller::Wait::kTimeout:
      tenants_.give_up(waiting);
      return problem(Error{
          ErrorCode::kTimeout,
          fmt::format("{} s were not enough: it still does not fit", *request->timeout_seconds)});
  }
  const auto result = tenants_.answer(waiting);
  if (!result) return problem(Error{ErrorCode::kInternal, "woken without an answer"});
  if (!*result) return problem(result->error());
  return answer(201, grant_document(**result));
}

HttpResponse NodeRoutes::change(const std::string& tenant, const std::string& body,
                                const net::Caller& caller) const {
  const auto change = parse_change_request(body);
  if (!change) return problem(change.error());
  const auto id = tenants_.find(tenant);
  if (!id) return problem(id.error());
  const auto changed = tenants_.change(*id, *change, peer_of(caller));
  if (!changed) return problem(changed.error());
  return get(std::to_string(id->value()));
}

HttpResponse NodeRoutes::release(const std::string& tenant, const net::Caller& caller) const {
  const auto id = tenants_.find(tenant);
  if (!id) return problem(id.error());
  const Status released = tenants_.release(*id, peer_of(caller));
  if (!released) return problem(released.error());
  return answer(200, headed("Released"));
}

}  // namespace divvy::api
