// Health and events as JSON in the schema divvy/v1, and what operators send. Pure, callable from
// any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/event_log.h"
#include "node/failing_tenants.h"
#include "node/gpu_sample.h"
#include "node/health_state.h"
#include "node/slices.h"

namespace divvy::api {

[[nodiscard]] boost::json::object health_document(const node::SharedGpu& gpu,
                                                  const node::GpuHealth& health,
                                                  const std::vector<node::HolderName>& holders,
                                                  const node::GpuSample* sample);
[[nodiscard]] boost::json::object event_document(const node::Event& event);

// The body of a cordon or drain; an empty one is allowed.
struct CordonRequest {
  std::string reason;
  std::optional<std::uint32_t> deadline_seconds;
};
[[nodiscard]] Result<CordonRequest> parse_cordon_request(std::string_view body);

// "since=12&wait=30", in any order, each at most once.
struct EventsQuery {
  std::uint64_t since = 0;
  std::uint32_t wait_seconds = 0;
};
[[nodiscard]] Result<EventsQuery> parse_events_query(std::string_view query);

}  // namespace divvy::api
