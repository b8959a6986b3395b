// Connections to one server that stay open between requests: inside TLS a handshake costs more than
// most answers. Every function may be called from any thread; there are as many connections as
// there are requests at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>

#include "net/http.h"

namespace divvy::net {

struct HttpConnectionsOptions {
  HttpTarget target;
  std::size_t most_idle = 8;  // That are kept while nobody asks anything
  // Shorter than what servers grant, so that it is us who end it.
  std::chrono::milliseconds idle_limit = std::chrono::seconds(45);
};

class HttpConnections {
 public:
  // Reads what the target's trust names, once; connects to nobody yet.
  [[nodiscard]] static Result<std::unique_ptr<HttpConnections>> create(
      HttpConnectionsOptions options);
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  // Like http_request(). Where a kept connection turns out to be dead before any of the answer
  // came, a GET is asked again on a new one; anything else may have been done, and is kUnavailable.
  [[nodiscard]] Result<HttpResponse> request(const HttpRequest& request,
                                             std::optional<std::chrono::milliseconds> timeout);
  // Like http_follow(), on a connection of its own. A request to stop ends it: kCancelled.
  [[nodiscard]] Result<HttpResponse> follow(const HttpRequest& request,
                                            std::optional<std::chrono::milliseconds> silence,
                                            const HttpPieces& pieces, const std::stop_token& stop);

 private:
  class Impl;
  explicit HttpConnections(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace divvy::net
