// Events of machines as JSON in the schema divvy/v1, and what operators send. Pure, callable from
// any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/event_table.h"

namespace divvy::api {

[[nodiscard]] boost::json::object event_document(const store::EventRow& event);

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
