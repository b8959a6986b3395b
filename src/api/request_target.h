// Whether the API has what a request asks for, before any route looks at it: the path is decoded
// once, here, and compared with the operations of the document (openapi_tables.h). Pure, callable
// from any thread.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "base/result.h"
#include "net/http.h"

namespace divvy::api {

// Without %XX. Refused: what stands for a control character, for "." and ".." as names, and a "/"
// inside of a name; those of queues have slashes in them, and below /v1/queues/ "%2F" is one.
[[nodiscard]] Result<std::string> decode_path(std::string_view path);

// The request with its path decoded, or what is answered instead: 400 for a path that cannot be
// decoded, 404 for one that there is not, 405 with "Allow" for one that takes other methods.
[[nodiscard]] tl::expected<net::HttpRequest, net::HttpResponse> resolve_target(
    const net::HttpRequest& request);

}  // namespace divvy::api
