#include "api/gpu_documents.h"

#include <boost/json.hpp>
#include <chrono>

#include "api/query.h"
#include "base/text.h"

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
  boost::system::error_code code;
  const json::value value = json::parse(json::string_view(body.data(), body.size()), code);
  if (code || !value.is_object()) {
    return err(ErrorCode::kInvalidArgument, "the request is no JSON object");
  }
  for (const auto& [key, field] : value.as_object()) {
    const std::string_view name(key.data(), key.size());
    if (name == "reason" && field.is_string() && field.as_string().size() <= kLongestReason) {
      request.reason = std::string(field.as_string());
    } else if (name == "deadlineSeconds" && field.is_int64() && field.as_int64() >= 0 &&
               field.as_int64() <= kLongestDeadline) {
      request.deadline_seconds = static_cast<std::uint32_t>(field.as_int64());
    } else if (name == "reason") {
      return err(ErrorCode::kInvalidArgument, "reason is a text of at most {} letters",
                 kLongestReason);
    } else if (name == "deadlineSeconds") {
      return err(ErrorCode::kInvalidArgument, "deadlineSeconds is a number from 0 to {}",
                 kLongestDeadline);
    } else {
      return err(ErrorCode::kInvalidArgument,
                 "there is no field \"{}\" here; they are reason and deadlineSeconds",
                 escape_for_terminal(name.substr(0, 40)));
    }
  }
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
