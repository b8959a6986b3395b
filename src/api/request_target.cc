#include "api/request_target.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/answers.h"
#include "api/openapi_tables.h"
#include "base/text.h"

namespace divvy::api {
namespace {

constexpr std::string_view kQueues = "/v1/queues/";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "/v1/jobs/{id}/logs"; only {path} has slashes in it.
bool matches(std::string_view pattern, std::string_view path) {
  const auto wanted = split(pattern, '/');
  const auto given = split(path, '/');
  const bool open = wanted.back() == "{path}";
  if (given.size() < wanted.size() || (given.size() > wanted.size() && !open)) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].starts_with('{') ? given[i].empty() : wanted[i] != given[i]) return false;
  }
  return true;
}

}  // namespace

Result<std::string> decode_path(std::string_view path) {
  const auto wrong = [path](std::string_view what) {
    return err(ErrorCode::kInvalidArgument, "the path {}: {}",
               escape_for_terminal(path.substr(0, 100)), what);
  };
  std::string decoded;
  for (std::size_t i = 0; i < path.size(); ++i) {
    char c = path[i];
    if (c == '%') {
      const int high = i + 2 < path.size() ? hex_digit(path[i + 1]) : -1;
      const int low = i + 2 < path.size() ? hex_digit(path[i + 2]) : -1;
      if (high < 0 || low < 0) return wrong("behind % stand two hexadecimal digits");
      c = static_cast<char>(high * 16 + low);
      if (c == '/' && !path.starts_with(kQueues)) {
        return wrong(
            "%2F is a slash inside of a name, and no name has one; write names as they are");
      }
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return wrong("there is a control character in it; write names as they are");
    }
    decoded += c;
  }
  for (const std::string_view name : split(decoded, '/')) {
    if (name == "." || name == "..") return wrong("\".\" and \"..\" are no names; write all of it");
  }
  return decoded;
}

tl::expected<net::HttpRequest, net::HttpResponse> resolve_target(const net::HttpRequest& request) {
  auto path = decode_path(request.path);
  if (!path) return tl::unexpected(problem(path.error()));
  // "/v1/jobs/prune" is no job.
  const bool exact = std::ranges::find(openapi_operations(), std::string_view(*path),
                                       &OperationRow::path) != openapi_operations().end();
  std::string allowed;
  bool found = false;
  for (const OperationRow& row : openapi_operations()) {
    if (exact ? row.path != *path : !matches(row.path, *path)) continue;
    found = found || row.method == request.method;
    if (allowed.find(row.method) == std::string::npos) {
      allowed += (allowed.empty() ? "" : ", ") + std::string(row.method);
    }
  }
  const std::string shown = escape_for_terminal(path->substr(0, 100));
  if (allowed.empty()) {
    return tl::unexpected(
        problem(problem_document(404, "not found", fmt::format("there is no {} here", shown))));
  }
  if (!found) {
    net::HttpResponse refused = problem(problem_document(
        405, "method not allowed",
        fmt::format("{} cannot be done to {}; {} can",
                    escape_for_terminal(request.method.substr(0, 20)), shown, allowed)));
    refused.headers["allow"] = allowed;
    return tl::unexpected(std::move(refused));
  }
  net::HttpRequest resolved = request;
  resolved.path = *std::move(path);
  return resolved;
}

}  // namespace divvy::api
