// One connection of a server, from its first byte to its last. Used by HttpServer, on the thread
// that the connection has.
#pragma once

#include <atomic>
#include <memory>

#include "net/http.h"
#include "net/rate_limit.h"
#include "net/tls_context.h"

namespace divvy::net {

// What all connections of a server share. It outlives them.
struct ConnectionRules {
  const HttpServerOptions& options;
  const HttpHandler& handler;
  const std::atomic<bool>& stopping;
  RateLimit& rate;
  std::atomic<std::size_t>& streams;  // that run just now
};

// Who is at the other end of a socket; nothing when it is gone already.
[[nodiscard]] std::optional<Caller> caller_of(int fd, bool network);

// Returns when the connection is over. `fd` stays the caller's; `tls` is null without TLS.
void serve_connection(int fd, const Caller& caller,
                      const std::shared_ptr<boost::asio::ssl::context>& tls,
                      const ConnectionRules& rules);

}  // namespace divvy::net
