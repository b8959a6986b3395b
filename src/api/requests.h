// Bodies of requests to the local API, read with suspicion: any text becomes a checked request or
// one sentence about what is wrong. Pure, callable from any thread.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "node/tenants.h"

namespace divvy::api {

struct GrantRequest {
  node::Ask ask;  // Without the peer
  bool wait = false;
  std::optional<std::uint32_t> timeout_seconds;
};
// `default_mode` is for those who name none. Requests for more than one GPU, which mode mps does
// not serve, then take turns.
[[nodiscard]] Result<GrantRequest> parse_grant_request(
    std::string_view body, node::GpuMode default_mode = node::GpuMode::kTimeslice);

[[nodiscard]] Result<node::Change> parse_change_request(std::string_view body);

}  // namespace divvy::api
