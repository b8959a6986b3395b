// The session of a browser: the console signs in with a token once and keeps no secret that one
// place alone could lose. What the token ends with (the key) stays with the page, in storage that
// belongs to its origin; the rest is in a cookie that no script can read. A request has to bring
// both, and together they are the token again. So a cookie is worth nothing to another server on
// the same host (cookies know no ports) or to a foreign page that has the browser send it (CSRF),
// and the page's storage is worth nothing to who reads it. Nothing is kept here: a session ends
// with its token. The token is one that somebody has, or was made for the session alone
// (sign_in.h). Pure, callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/http.h"

namespace divvy::api {

// Where the page puts the key; for a WebSocket, which has no headers of its own, it is one of the
// protocols that are offered: "divvy-session.KEY".
inline constexpr std::string_view kSessionHeader = "x-divvy-session";
inline constexpr std::string_view kSessionProtocol = "divvy-session.";

// The token that cookie and key are together. Nothing where either is missing, or where a page of
// another origin asks.
[[nodiscard]] std::optional<std::string> session_token(const net::HttpRequest& request);

// Browsers name the origin of whatever could do harm. It is ours where it names the host that the
// request is for, or where none is named.
[[nodiscard]] bool is_own_origin(const net::HttpRequest& request);
// The value of that cookie; empty: there is none.
[[nodiscard]] std::string_view cookie_in(const net::HttpRequest& request, std::string_view name);

struct Session {
  std::string cookie;  // the whole value of "Set-Cookie"
  std::string key;
};
// Of a token that is valid. `secure`: the browser sends the cookie inside TLS only.
[[nodiscard]] Session make_session(std::string_view token, bool secure);
// The label of a token that was made for one session of a browser: it is revoked when that ends.
inline constexpr std::string_view kBrowserLabel = "browser sign-in";
// "Set-Cookie" that ends it.
[[nodiscard]] std::string ended_session(bool secure);

}  // namespace divvy::api
