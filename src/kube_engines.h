// The engines of `divvyd` that work for Kubernetes. Composition: in kube_engines.cc, or in
// kube_engines_absent.cc where Divvy is built without them (DIVVY_KUBERNETES, which needs gRPC).
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "config/daemon_config.h"
#include "config/live_config.h"
#include "daemon_options.h"
#include "sys/daemon.h"
#include "sys/supervisor.h"

namespace divvy {

// What a daemon has when it begins to serve.
struct Started {
  config::LiveConfig& settings;
  sys::Background& background;
  const sys::Supervisor& supervisor;
  const sigset_t& signals;
  std::vector<std::string> arguments;  // of this process
};

// Until no other daemon has the folders: during an upgrade the agent before this one still works.
// Before any thread exists.
void await_turn(const config::DaemonConfig& config);

// `divvyd --engine kubernetes-node`: the machine, for the controller of a cluster.
[[nodiscard]] Status serve_kubernetes_node(const Started& started, const KubeOptions& options);
// `divvyd --engine kubernetes`: the controller of a cluster, which needs no GPU.
[[nodiscard]] Status serve_cluster(const Started& started, const KubeOptions& options);

}  // namespace divvy
