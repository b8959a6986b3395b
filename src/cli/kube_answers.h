// Questions that are answered in this process: a cluster has no daemon to ask, so what answers for
// it (kube_api/cluster_api.h) is called where a daemon would be sent a request. Runs on the main
// thread; an answer that grows is made on one of its own, which ends with the call.
#pragma once

#include <chrono>
#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/daemon.h"
#include "net/http.h"

namespace divvy::cli {

// `request.path` still has its query.
[[nodiscard]] Result<Reply> ask_here(const net::HttpHandler& handler, net::HttpRequest request);

// With the header "upgrade" in the request: the socket is connected where the status is 101.
[[nodiscard]] Result<Reply> upgrade_here(const net::HttpHandler& handler, net::HttpRequest request,
                                         UniqueFd& socket);

// Like net::http_follow(): kTimeout where nothing came for `silence`.
[[nodiscard]] Result<Reply> follow_here(const net::HttpHandler& handler, net::HttpRequest request,
                                        std::optional<std::chrono::milliseconds> silence,
                                        const net::HttpPieces& pieces);

}  // namespace divvy::cli
