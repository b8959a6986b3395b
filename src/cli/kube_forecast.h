// `divvy sim cluster --from-kube`: the nodes and the line of the cluster that the context names, as
// they are now, and what would become of the line with other nodes or rules. Runs on the main
// thread.
#pragma once

#include "base/result.h"

namespace divvy::cli {

struct Session;
struct SimClusterOptions;

// The error is a wrong option; everything else is said, and is an exit status.
[[nodiscard]] Result<int> forecast_cluster(const Session& session,
                                           const SimClusterOptions& options);

}  // namespace divvy::cli
