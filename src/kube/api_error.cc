#include "kube/api_error.h"

#include <boost/json.hpp>

#include "base/text.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

// Whoever is between us and the API server may answer with a page of any length.
constexpr std::size_t kMaxQuoted = 500;

struct Said {
  std::string message;
  std::string reason;
};

Said read(std::string_view body) {
  boost::system::error_code code;
  const json::value value = json::parse(body, code);
  if (!code && value.is_object() && text_at(value.as_object(), "kind") == "Status") {
    return {std::string(text_at(value.as_object(), "message")),
            std::string(text_at(value.as_object(), "reason"))};
  }
  return {std::string(trim(body)), {}};
}

ErrorCode code_of(int status, std::string_view reason) {
  switch (status) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return ErrorCode::kInvalidArgument;
    case 401:
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kFailedPrecondition;
    case 410:
      return ErrorCode::kOutOfRange;
    case 429:
      return ErrorCode::kResourceExhausted;
    default:
      return status >= 500 ? ErrorCode::kUnavailable : ErrorCode::kInternal;
  }
}

}  // namespace

Error error_of_answer(int http_status, std::string_view body, std::string_view what) {
  Said said = read(body);
  if (said.message.size() > kMaxQuoted) {
    said.message.resize(kMaxQuoted);
    said.message += "...";
  }
  if (said.message.empty()) said.message = "it gave no reason";
  // It comes from elsewhere, and ends in logs and terminals.
  return {code_of(http_status, said.reason),
          fmt::format("{}: the API server answered {}: {}", what, http_status,
                      escape_for_terminal(said.message))};
}

}  // namespace divvy::kube
