#include "api/session.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"
#include "base/text.h"
#include "store/people_table.h"
#include "store/token_secret.h"

namespace divvy::api {
namespace {

// With this beginning browsers take a cookie only from the host itself, inside TLS: no neighbour in
// the same domain can put its own in the place of ours.
constexpr std::string_view kSecureName = "__Host-divvy-session";
constexpr std::string_view kPlainName = "divvy-session";
constexpr std::string_view kBearer = "bearer ";
// Of the 64 hexadecimal digits of a token's secret: 128 bits are on either side.
constexpr std::size_t kKeyDigits = 32;
// A day's work. Then the token is asked for again.
constexpr int kSeconds = 12 * 3600;

std::string_view key_in(const net::HttpRequest& request) {
  if (const auto key = request.header(kSessionHeader); !key.empty()) return trim(key);
  for (const std::string_view piece : split(request.header("sec-websocket-protocol"), ',')) {
    const std::string_view protocol = trim(piece);
    if (protocol.starts_with(kSessionProtocol)) return protocol.substr(kSessionProtocol.size());
  }
  return {};
}

std::string attributes(bool secure, int seconds) {
  return fmt::format("; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}", seconds,
                     secure ? "; Secure" : "");
}

}  // namespace

bool is_own_origin(const net::HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return true;
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == request.header("host");
}

std::string_view cookie_in(const net::HttpRequest& request, std::string_view name) {
  for (const std::string_view piece : split(request.header("cookie"), ';')) {
    const std::string_view pair = trim(piece);
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) {
      return pair.substr(name.size() + 1);
    }
  }
  return {};
}

std::optional<std::string> session_token(const net::HttpRequest& request) {
  if (!is_own_origin(request)) return std::nullopt;
  std::string_view beginning = cookie_in(request, kSecureName);
  if (beginning.empty()) beginning = cookie_in(request, kPlainName);
  const std::string_view key = key_in(request);
  if (beginning.empty() || key.size() != kKeyDigits) return std::nullopt;
  return std::string(beginning) + std::string(key);
}

Session make_session(std::string_view token, bool secure) {
  const std::size_t cut = token.size() < kKeyDigits ? 0 : token.size() - kKeyDigits;
  return {fmt::format("{}={}{}", secure ? kSecureName : kPlainName, token.substr(0, cut),
                      attributes(secure, kSeconds)),
          std::string(token.substr(cut))};
}

std::string ended_session(bool secure) {
  return fmt::format("{}={}", secure ? kSecureName : kPlainName, attributes(secure, 0));
}

// The permission step has seen that the token is valid.
Answer begin_session(const Call& call) {
  const std::string_view header = trim(call.request.header("authorization"));
  if (header.size() <= kBearer.size()) {
    return err(ErrorCode::kInvalidArgument,
               "a session begins with a token, as \"Authorization: Bearer TOKEN\"");
  }
  const Session session =
      make_session(trim(header.substr(kBearer.size())), call.parts.cookies_need_tls);
  net::HttpResponse response =
      answer(201, headed("Session", {{"key", session.key}, {"user", call.who.name}}));
  response.headers["set-cookie"] = session.cookie;
  response.headers["cache-control"] = "no-store";
  return response;
}

// A token that nobody has but this session is of no use after it.
Answer end_session(const Call& call) {
  if (const auto text = session_token(call.request)) {
    const auto token = store::split_token(*text);
    const WallTime now = call.parts.clock.wall_now();
    const Status revoked = call.parts.database.commit([&](store::Connection& connection) -> Status {
      store::PeopleTable table(connection);
      DIVVY_TRY(mine, table.tokens(call.who.name));
      const auto found = std::ranges::find(mine, token ? token->id : "", &store::TokenRecord::id);
      if (found == mine.end() || found->label != kBrowserLabel) return {};
      return table.revoke_token(found->id, now);
    });
    if (!revoked) return err(revoked.error());
  }
  net::HttpResponse response = answer(200, headed("Session", {{"user", call.who.name}}));
  response.headers["set-cookie"] = ended_session(call.parts.cookies_need_tls);
  return response;
}

}  // namespace divvy::api
