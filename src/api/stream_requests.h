// The body of POST /v1/jobs/{id}/stream. Pure, callable from any thread.
#pragma once

#include <string_view>

#include "agent/orders.h"
#include "base/result.h"

namespace divvy::api {

// What the connection speaks after the upgrade: frames of sys/frames.h.
inline constexpr std::string_view kStreamProtocol = "divvy-stream";

// The member is one of its rank; job and attempt are the caller's to fill in.
[[nodiscard]] Result<agent::StreamOrder> parse_stream_request(std::string_view body);

}  // namespace divvy::api
