#include "api/slice_routes.h"

#include <boost/json.hpp>

#include "api/answers.h"
#include "api/documents.h"
#include "api/requests.h"
#include "base/text.h"

namespace divvy::api {
namespace {

namespace json = boost::json;
using net::HttpResponse;

constexpr std::string_view kSlices = "/v1/slices";

// What it is as a tenant, and as a device.
json::object slice_document(const node::TenantView& view) {
  json::object document = tenant_document(view);
  document["device"] = node::ContainerDevices::device_name(view.record.name);
  return document;
}

}  // namespace

bool SliceRoutes::is_here(const std::string& path) {
  return path == kSlices || (path.starts_with(kSlices) && path.size() > kSlices.size() + 1 &&
                             path[kSlices.size()] == '/');
}

HttpResponse SliceRoutes::handle(const net::HttpRequest& request, const net::Caller& caller) const {
  const std::string& method = request.method;
  if (request.path == kSlices) {
    if (method == "GET") return list();
    if (method == "POST") return hold(request, caller);
  } else {
    const std::string name = request.path.substr(kSlices.size() + 1);
    if (method == "GET") return get(name);
    if (method == "DELETE") return release(name, caller);
  }
  return problem(problem_document(
      405, "method not allowed",
      fmt::format("{} cannot be done to {}", escape_for_terminal(method.substr(0, 20)),
                  escape_for_terminal(request.path.substr(0, 100)))));
}

HttpResponse SliceRoutes::list() const {
  json::object document = headed("SliceList");
  json::array items;
  for (const node::TenantView& view : tenants_.list()) {
    if (!has_root(view.record)) items.push_back(slice_document(view));
  }
  document["items"] = std::move(items);
  return answer(200, document);
}

HttpResponse SliceRoutes::hold(const net::HttpRequest& request, const net::Caller& caller) const {
  auto wanted = parse_grant_request(request.body);
  if (!wanted) return problem(wanted.error());
  if (wanted->spec.name.empty()) {
    return problem(Error{ErrorCode::kInvalidArgument,
                         "\"name\" is missing: containers ask for the slice by its name"});
  }
  if (wanted->wait) {
    return problem(Error{ErrorCode::kUnsupported, "a slice that is held by its name cannot wait"});
  }
  wanted->spec.holder = model::Holder::kSlice;
  const auto granted = asker_.ask(*std::move(wanted), request, caller);
  if (!granted) return granted.error();
  json::object document = grant_document(granted->grant);
  document["kind"] = "Slice";
  document["job"] = granted->job.value();
  document["device"] = node::ContainerDevices::device_name(granted->grant.record.name);
  return answer(201, document);
}

Result<node::TenantView> SliceRoutes::find(const std::string& name) const {
  DIVVY_TRY(id, tenants_.find(name));
  auto view = tenants_.get(id);
  if (!view) return err(ErrorCode::kNotFound, "the slice is gone");
  if (has_root(view->record)) {
    return err(ErrorCode::kNotFound,
               "{} is no slice that is held by its name but a tenant with a process (pid {}); it "
               "ends with that",
               view->record.name, view->record.root.pid);
  }
  return *std::move(view);
}

HttpResponse SliceRoutes::get(const std::string& name) const {
  const auto view = find(name);
  if (!view) return problem(view.error());
  json::object document = headed("Slice");
  for (auto& entry : slice_document(*view)) document[entry.key()] = entry.value();
  return answer(200, document);
}

HttpResponse SliceRoutes::release(const std::string& name, const net::Caller& caller) const {
  const auto view = find(name);
  if (!view) return problem(view.error());
  const Status released =
      tenants_.release(view->record.id, {caller.pid(), caller.uid(), caller.gid()});
  if (!released) return problem(released.error());
  return answer(200, headed("Released"));
}

}  // namespace divvy::api
