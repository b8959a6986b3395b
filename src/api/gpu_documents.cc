#include "api/gpu_documents.h"

#include <chrono>

#include "api/query.h"
#include "base/text.h"
#include "model/json_fields.h"

namespace divvy::api {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestReason = 300;
constexpr std::uint32_t kLongestDeadline = 30 * 24 * 3600;
constexpr std::uint32_t kLongestWait = 3600;

std::int64_t milliseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

json::value text_or_null(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(escape_for_terminal(text));
}

}  // namespace

json::object event_document(const store::EventRow& event) {
  return {{"number", event.number},
          {"unixMilliseconds", milliseconds(event.at)},
          {"kind", event.kind},
          {"node", text_or_null(event.node)},
          {"gpu", event.gpu ? json::value(*event.gpu) : json::value(nullptr)},
          {"uuid", text_or_null(event.object)},
          {"tenant", text_or_null(event.tenant)},
          {"state", text_or_null(event.state)},
          {"reason", text_or_null(event.reason)}};
}

Result<CordonRequest> parse_cordon_request(std::string_view body) {
  CordonRequest request;
  if (trim(body).empty()) return request;
  DIVVY_TRY(document, model::parse_json(body));
  model::JsonFields fields(document);
  fields.read("reason", request.reason);
  fields.read("deadlineSeconds", request.deadline_seconds);
  if (request.reason.size() > kLongestReason) {
    fields.refuse("reason",
                  fmt::format("this has to be text of at most {} letters", kLongestReason));
  }
  if (request.deadline_seconds.value_or(0) > kLongestDeadline) {
    fields.refuse("deadlineSeconds",
                  fmt::format("this has to be a whole number from 0 to {}", kLongestDeadline));
  }
  DIVVY_RETURN_IF_ERROR(fields.finish());
  return request;
}

Result<EventsQuery> parse_events_query(std::string_view text) {
  DIVVY_TRY(query, Query::parse(text));
  DIVVY_TRY(since, query.number("since"));
  DIVVY_TRY(wait, query.number("wait"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  if (wait.value_or(0) > kLongestWait) {
    return err(ErrorCode::kOutOfRange, "\"wait\" is a number of seconds, at most {}", kLongestWait);
  }
  return EventsQuery{since.value_or(0), static_cast<std::uint32_t>(wait.value_or(0))};
}

}  // namespace divvy::api
