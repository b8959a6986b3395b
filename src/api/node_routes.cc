#include "api/node_routes.h"

#include <boost/json.hpp>
#include <chrono>

#include "api/answers.h"
#include "api/documents.h"
#include "api/requests.h"
#include "api/slice_routes.h"
#include "base/log.h"
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
  if (SliceRoutes::is_here(path)) return SliceRoutes(tenants_, asker_).handle(request, caller);
  if (path == "/v1/node" && method == "GET") return node();
  if (path == "/v1/stats" && method == "GET") return stats();
  if (path == "/v1/tenants" && method == "GET") return list();
  if (path == "/v1/tenants" && method == "POST") return grant(request, caller);
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
  document["waiting"] = dispatcher_.waiting();
  document["gpus"] = gpu_documents(tenants_.slices());
  return answer(200, document);
}

HttpResponse NodeRoutes::list() const {
  json::object document = headed("TenantList");
  json::array items;
  for (const node::TenantView& view : tenants_.list()) items.push_back(tenant_document(view));
  document["items"] = std::move(items);
  document["waiting"] = dispatcher_.waiting();
  return answer(200, document);
}

HttpResponse NodeRoutes::stats() const {
  json::object document = headed("Stats");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  document["unixMilliseconds"] = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  document["hostname"] = tenants_.node().hostname();
  document["simulated"] = tenants_.node().simulated();
  document["waiting"] = dispatcher_.waiting();
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

HttpResponse NodeRoutes::grant(const net::HttpRequest& request, const net::Caller& caller) const {
  auto wanted = parse_grant_request(request.body);
  if (!wanted) return problem(wanted.error());
  const auto granted = asker_.ask(*std::move(wanted), request, caller);
  if (!granted) return granted.error();
  json::object document = grant_document(granted->grant);
  document["job"] = granted->job.value();
  return answer(201, document);
}

// The queue first, which knows what others may have; what the machine then refuses is taken back.
HttpResponse NodeRoutes::change(const std::string& tenant, const std::string& body,
                                const net::Caller& caller) const {
  const auto change = parse_change_request(body);
  if (!change) return problem(change.error());
  const auto id = tenants_.find(tenant);
  if (!id) return problem(id.error());
  const auto slices = tenants_.changed(*id, *change, peer_of(caller));
  if (!slices) return problem(slices.error());
  const auto before = tenants_.get(*id);
  if (!before) return problem(Error{ErrorCode::kNotFound, "the tenant is gone"});
  const model::JobId job = before->record.member.job;
  const std::string by = node::user_name(caller.uid());
  if (const Status booked = dispatcher_.resize(job, *slices, by); !booked) {
    return problem(booked.error());
  }
  if (const Status changed = tenants_.change(*id, *slices, change->tenant_class); !changed) {
    if (const Status back = dispatcher_.resize(job, before->record.slices, by); !back) {
      log_error("queue counts with slices that were not changed",
                {{"job", job.value()}, {"reason", back.error().message}});
    }
    return problem(changed.error());
  }
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
