// Bodies of requests to the local API, read with suspicion: any text becomes a checked request or
// one sentence about what is wrong. Pure, callable from any thread.
#pragma once

#include <optional>
#include <string_view>

#include "agent/orders.h"
#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::api {

struct GrantRequest {
  model::JobSpec spec;  // of a job whose slices a process holds
  bool wait = false;
  std::optional<std::uint32_t> timeout_seconds;
};
[[nodiscard]] Result<GrantRequest> parse_grant_request(std::string_view body);

[[nodiscard]] Result<agent::SliceChange> parse_change_request(std::string_view body);

}  // namespace divvy::api
