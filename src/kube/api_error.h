// What an answer of the API server that is no success means, in the codes that api_server.h lists.
// Pure, callable from any thread.
#pragma once

#include <string_view>

#include "base/result.h"

namespace divvy::kube {

// The message of a Status document is used where `body` is one; `what` is in front ("GET
// /api/v1/x").
[[nodiscard]] Error error_of_answer(int http_status, std::string_view body, std::string_view what);

}  // namespace divvy::kube
