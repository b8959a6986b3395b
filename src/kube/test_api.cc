// OneThreadApi of cluster_testing.h.
#include <boost/json.hpp>

#include "base/check.h"
#include "kube/cluster_testing.h"
#include "kube/json_view.h"
#include "kube/resource_path.h"

namespace divvy::kube::testing {
namespace {

namespace json = boost::json;

ResourcePath parsed(const std::string& path) {
  auto made = ResourcePath::parse(path);
  DIVVY_CHECK(made.has_value(), "{}", made.error().message);
  return *std::move(made);
}

std::string text(const json::object& object, std::initializer_list<std::string_view> path) {
  return std::string(text_at(object, path));
}

Result<json::object> copy(const Result<FakeStore::Object>& found) {
  if (!found) return err(found.error());
  return **found;
}

}  // namespace

Result<json::object> OneThreadApi::get(const std::string& path) {
  return copy(store_.find(parsed(path)));
}

Result<json::object> OneThreadApi::create(const std::string& path, const json::object& object) {
  const ResourcePath to = parsed(path);
  if (to.subresource == "eviction") {
    if (kept_by_budget.contains(to.name)) {
      return err(ErrorCode::kResourceExhausted,
                 "Cannot evict pod as it would violate the pod's disruption budget.");
    }
    if (!array_at(object, {"deleteOptions", "dryRun"}).empty()) return object;
  }
  return copy(store_.create(parsed(path), object));
}

Result<json::object> OneThreadApi::replace(const std::string& path, const json::object& object) {
  const ResourcePath to = parsed(path);
  if (to.resource == "resourceclaims" && to.subresource == "status") {
    const auto before = store_.find(to);
    const json::object& had = before ? object_at(**before, {"status", "allocation"}) : object;
    const json::object& has = object_at(object, {"status", "allocation"});
    if (before && !had.empty() && !has.empty() && had != has &&
        text(**before, {"metadata", "resourceVersion"}) ==
            text(object, {"metadata", "resourceVersion"})) {
      return err(ErrorCode::kInvalidArgument, "status.allocation: field is immutable");
    }
  }
  if (knows_binding_conditions || to.resource != "resourceclaims") {
    return copy(store_.replace(to, object));
  }
  json::value kept = object;
  boost::system::error_code none;
  json::value* const results = kept.find_pointer("/status/allocation/devices/results", none);
  if (results != nullptr) {
    for (json::value& result : results->as_array()) {
      result.as_object().erase("bindingConditions");
      result.as_object().erase("bindingFailureConditions");
    }
  }
  return copy(store_.replace(to, kept.as_object()));
}

Result<json::object> OneThreadApi::patch(const std::string& path, PatchType type,
                                         const json::value& patch) {
  return copy(store_.patch(parsed(path), type, patch));
}

Status OneThreadApi::remove(const std::string& path, const json::object& options) {
  return store_.remove(parsed(path), options);
}

Status OneThreadApi::watch(const std::string& /*path*/,
                           const std::function<bool(WatchEvent)>& /*take*/,
                           const std::stop_token& /*stop*/) {
  return err(ErrorCode::kUnsupported, "nobody watches here");
}

std::vector<json::object> OneThreadApi::list(const std::string& collection) const {
  std::vector<json::object> objects;
  for (const FakeStore::Object& one : store_.list(parsed(collection))) objects.push_back(*one);
  return objects;
}

}  // namespace divvy::kube::testing
