#include "api/request_target.h"

#include <algorithm>
#include <boost/json.hpp>
#include <optional>

#include "api/answers.h"
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

// What stands for the one in braces; empty where there is none. Nothing: it is another path.
std::optional<std::string_view> match(const Route& route, std::string_view path) {
  const std::size_t open = route.path.find('{');
  if (open == std::string_view::npos) {
    return route.path == path ? std::optional(std::string_view()) : std::nullopt;
  }
  const std::string_view before = route.path.substr(0, open);
  const std::string_view behind = route.path.substr(route.path.find('}') + 1);
  if (path.size() <= before.size() + behind.size()) return std::nullopt;
  if (!path.starts_with(before) || !path.ends_with(behind)) return std::nullopt;
  path.remove_prefix(before.size());
  path.remove_suffix(behind.size());
  const bool slashes = std::holds_alternative<QueueHandler>(route.handler);
  if (slashes ? path.starts_with('/') : path.find('/') != std::string_view::npos) {
    return std::nullopt;
  }
  return path;
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

tl::expected<Target, net::HttpResponse> resolve_target(const net::HttpRequest& request,
                                                       std::span<const Route> table) {
  const auto path = decode_path(request.path);
  if (!path) return tl::unexpected(problem(path.error()));
  // "/v1/jobs/prune" is no job.
  const bool exact = std::ranges::find(table, std::string_view(*path), &Route::path) != table.end();
  std::string allowed;
  for (const Route& route : table) {
    const auto parameter = match(route, *path);
    if (!parameter || (exact && route.path != *path)) continue;
    if (route.method == request.method) return Target{&route, std::string(*parameter)};
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  const std::string shown = escape_for_terminal(path->substr(0, 100));
  if (allowed.empty()) {
    return tl::unexpected(
        problem(problem_document(404, "not found", fmt::format("there is no {} here", shown))));
  }
  net::HttpResponse refused = problem(problem_document(
      405, "method not allowed",
      fmt::format("{} cannot be done to {}; {} can",
                  escape_for_terminal(request.method.substr(0, 20)), shown, allowed)));
  refused.headers["allow"] = allowed;
  return tl::unexpected(std::move(refused));
}

}  // namespace divvy::api
