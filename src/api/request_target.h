// Which route a request is for, before anything else looks at it: the path is decoded once, here,
// and compared with the table of routes. Pure, callable from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "api/routes.h"
#include "base/result.h"
#include "net/http.h"

namespace divvy::api {

// Without %XX. Refused: what stands for a control character, for "." and ".." as names, and a "/"
// inside of a name; those of queues have slashes in them, and below /v1/queues/ "%2F" is one.
[[nodiscard]] Result<std::string> decode_path(std::string_view path);

struct Target {
  const Route* route = nullptr;
  std::string parameter;  // What stands for the one that is in braces
};

// Or what is answered instead: 400 for a path that cannot be decoded, 404 for one that there is
// not, 405 with "Allow" for one that takes other methods.
[[nodiscard]] tl::expected<Target, net::HttpResponse> resolve_target(
    const net::HttpRequest& request, std::span<const Route> table = routes());

}  // namespace divvy::api
