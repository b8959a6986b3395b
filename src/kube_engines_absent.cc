#include "kube_engines.h"

namespace divvy {
namespace {

Status absent() {
  return err(
      ErrorCode::kUnsupported,
      "this divvyd was built without Kubernetes; build it with DIVVY_KUBERNETES=ON, or leave "
      "--engine out");
}

}  // namespace

void await_turn(const config::DaemonConfig& /*config*/) {}

Status serve_kubernetes_node(const Started& /*started*/, const KubeOptions& /*options*/) {
  return absent();
}

Status serve_cluster(const Started& /*started*/, const KubeOptions& /*options*/) {
  return absent();
}

}  // namespace divvy
