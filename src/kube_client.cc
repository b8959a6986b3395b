#include "kube_client.h"

#include <map>
#include <memory>
#include <tuple>

#include "base/clock.h"
#include "kube/credentials.h"
#include "kube/http_api.h"
#include "kube_api/cluster_api.h"

namespace divvy {
namespace {

// One cluster, for as long as somebody asks it: a command asks several times, and its connection
// stays open between them.
struct Cluster {
  SystemClock clock;
  std::unique_ptr<kube::HttpApi> server;
  std::unique_ptr<kube_api::ClusterApi> answers;
};

Result<std::shared_ptr<Cluster>> connect(const cli::ServerContext& context) {
  DIVVY_TRY(credentials, kube::load_kubeconfig(context.kubeconfig, context.kube_context));
  kube_api::ClusterApi::Options options;
  options.version = DIVVY_VERSION;
  if (!credentials.space.empty()) options.space = credentials.space;
  if (!context.space.empty()) options.space = context.space;
  auto made = std::make_shared<Cluster>();
  DIVVY_TRY(server, kube::HttpApi::create(std::move(credentials),
                                          {.user_agent = "divvy/" DIVVY_VERSION}, made->clock));
  made->server = std::move(server);
  made->answers =
      std::make_unique<kube_api::ClusterApi>(*made->server, made->clock, std::move(options));
  return made;
}

}  // namespace

std::function<Result<net::HttpHandler>(const cli::ServerContext&)> cluster_answers() {
  using Key = std::tuple<std::string, std::string, std::string>;
  auto known = std::make_shared<std::map<Key, std::shared_ptr<Cluster>>>();
  return [known](const cli::ServerContext& context) -> Result<net::HttpHandler> {
    const Key key{context.kubeconfig, context.kube_context, context.space};
    std::shared_ptr<Cluster>& cluster = (*known)[key];
    if (!cluster) {
      DIVVY_TRY(made, connect(context));
      cluster = std::move(made);
    }
    return [cluster](const net::HttpRequest& request, const net::Caller& caller) {
      return cluster->answers->handle(request, caller);
    };
  };
}

}  // namespace divvy
