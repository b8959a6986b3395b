#include "kube_client.h"

namespace divvy {

std::function<Result<net::HttpHandler>(const cli::ServerContext&)> cluster_answers() { return {}; }

}  // namespace divvy
