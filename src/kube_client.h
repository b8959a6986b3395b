// What answers `divvy` for a context that is a cluster. Composition: in kube_client.cc, or in
// kube_client_absent.cc where Divvy is built without Kubernetes.
#pragma once

#include <functional>

#include "base/result.h"
#include "cli/server_contexts.h"
#include "net/http.h"

namespace divvy {

// Empty: there is none.
[[nodiscard]] std::function<Result<net::HttpHandler>(const cli::ServerContext&)> cluster_answers();

}  // namespace divvy
