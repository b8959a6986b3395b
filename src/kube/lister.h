// A whole collection, page by page. Callable from any thread.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/api_server.h"

namespace divvy::kube {

struct Listing {
  std::vector<boost::json::object> items;  // With apiVersion and kind, where the list says them
  std::string version;                     // From where to watch
};

// `path` may have selectors in its query. Pages that became too old in the middle (kOutOfRange): it
// begins anew, and at last asks for everything at once. kCancelled between two pages.
[[nodiscard]] Result<Listing> list_all(ApiServer& api, const std::string& path,
                                       std::size_t page = 500, const std::stop_token& stop = {});

}  // namespace divvy::kube
