// Whether a node is one that a pod's required node affinity (spec.affinity.nodeAffinity) admits, as
// kube-scheduler has it. Pure; any document is safe to pass.
#pragma once

#include <boost/json/object.hpp>

#include "kube/cluster_objects.h"

namespace divvy::kube {

// `affinity` is the pod's spec.affinity; empty: every node.
[[nodiscard]] bool admits(const boost::json::object& affinity, const NodeFacts& node);

}  // namespace divvy::kube
