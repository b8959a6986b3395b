#include "kube/lister.h"

#include <boost/json.hpp>
#include <utility>

#include "kube/resource_path.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr int kPagedAttempts = 3;

// "PodList" has Pods in it, which do not say so themselves.
void take_items(json::object& page, std::vector<json::object>& items) {
  const std::string version(text_at(page, "apiVersion"));
  std::string kind(text_at(page, "kind"));
  constexpr std::string_view kSuffix = "List";
  kind.resize(kind.ends_with(kSuffix) ? kind.size() - kSuffix.size() : 0);
  json::value* list = page.if_contains("items");
  if (list == nullptr || !list->is_array()) return;
  for (json::value& item : list->as_array()) {
    if (!item.is_object()) continue;
    json::object& object = items.emplace_back(std::move(item.as_object()));
    if (kind.empty() || object.contains("kind")) continue;
    object["apiVersion"] = version;
    object["kind"] = kind;
  }
}

// `page` 0: everything at once.
Result<Listing> attempt(ApiServer& api, const std::string& path, std::size_t page,
                        const std::stop_token& stop) {
  Listing listing;
  std::string next;
  do {
    if (stop.stop_requested()) return err(ErrorCode::kCancelled, "the list was stopped");
    std::string address = path;
    if (page > 0) address = with_parameter(address, "limit", std::to_string(page));
    if (!next.empty()) address = with_parameter(address, "continue", next);
    DIVVY_TRY(got, api.get(address));
    take_items(got, listing.items);
    listing.version = text_at(got, "metadata.resourceVersion");
    next = text_at(got, "metadata.continue");
  } while (!next.empty());
  if (listing.version.empty()) {
    return err(ErrorCode::kDataLoss, "the list of {} has no resource version", path);
  }
  return listing;
}

}  // namespace

Result<Listing> list_all(ApiServer& api, const std::string& path, std::size_t page,
                         const std::stop_token& stop) {
  for (int tried = 0; tried < kPagedAttempts; ++tried) {
    auto listing = attempt(api, path, page, stop);
    if (listing || listing.error().code != ErrorCode::kOutOfRange) return listing;
  }
  return attempt(api, path, 0, stop);
}

}  // namespace divvy::kube
