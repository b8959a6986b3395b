// `kubectl-divvy`: what kubectl runs as `kubectl divvy`. Composition only.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/kubectl_app.h"
#include "kube/cluster_view.h"
#include "kube/credentials.h"
#include "kube/http_api.h"

namespace {

using divvy::Result;
using divvy::cli::KubeTarget;

struct Cluster {
  std::unique_ptr<divvy::kube::HttpApi> api;
  std::string space;  // empty: all namespaces
};

class Clusters {
 public:
  Result<Cluster> connect(const KubeTarget& target) {
    DIVVY_TRY(credentials, divvy::kube::find_credentials(target.kubeconfig, target.context));
    Cluster cluster;
    cluster.space = target.space.empty() ? credentials.space : target.space;
    if (target.all_spaces) cluster.space.clear();
    DIVVY_TRY(api, divvy::kube::HttpApi::create(std::move(credentials),
                                                {.user_agent = "kubectl-divvy"}, clock_));
    cluster.api = std::move(api);
    return cluster;
  }

 private:
  divvy::SystemClock clock_;
};

}  // namespace

int main(int argc, char** argv) {
  Clusters clusters;
  const divvy::cli::KubeDocuments documents{
      .version = DIVVY_VERSION,
      .gpus = [&](const KubeTarget& target) -> Result<std::string> {
        DIVVY_TRY(cluster, clusters.connect(target));
        return divvy::kube::gpus_document(*cluster.api);
      },
      .slices = [&](const KubeTarget& target) -> Result<std::string> {
        DIVVY_TRY(cluster, clusters.connect(target));
        return divvy::kube::slices_document(*cluster.api, cluster.space);
      },
      .waiting = [&](const KubeTarget& target) -> Result<std::string> {
        DIVVY_TRY(cluster, clusters.connect(target));
        return divvy::kube::waiting_document(*cluster.api, cluster.space);
      },
      .capacity = [&](const KubeTarget& target) -> Result<std::string> {
        DIVVY_TRY(cluster, clusters.connect(target));
        return divvy::kube::capacity_document(*cluster.api);
      },
      .pod = [&](const KubeTarget& target, const std::string& pod) -> Result<std::string> {
        DIVVY_TRY(cluster, clusters.connect(target));
        const std::string space = cluster.space.empty() ? "default" : cluster.space;
        return divvy::kube::pod_document(*cluster.api, space, pod);
      }};
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  return divvy::cli::run_kubectl(arguments, documents, divvy::cli::this_terminal(), std::cout,
                                 std::cerr);
}
