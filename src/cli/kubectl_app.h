// The command line of `kubectl divvy` (the program kubectl-divvy, as kubectl finds its plugins):
// inspect, top, queue, explain and capacity, shown as `divvy` shows its own. What it shows comes as
// JSON documents from `KubeDocuments`, so this room knows nothing of Kubernetes. Runs on the main
// thread.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/style.h"

namespace divvy::cli {

// Whom to ask, as kubectl's options of the same names say it; empty: what kubectl would take.
struct KubeTarget {
  std::string kubeconfig;
  std::string context;
  std::string space;        // The namespace
  bool all_spaces = false;  // -A
};

struct KubeDocuments {
  std::string version;
  std::function<Result<std::string>(const KubeTarget&)> gpus;
  std::function<Result<std::string>(const KubeTarget&)> slices;
  std::function<Result<std::string>(const KubeTarget&)> waiting;
  std::function<Result<std::string>(const KubeTarget&)> capacity;
  std::function<Result<std::string>(const KubeTarget&, const std::string& pod)> pod;
};

[[nodiscard]] int run_kubectl(const std::vector<std::string>& arguments,
                              const KubeDocuments& documents, const Terminal& terminal,
                              std::ostream& out, std::ostream& err);

}  // namespace divvy::cli
