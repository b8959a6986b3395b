// What people look at in a cluster: GPUs and who has slices of them, pods that wait, and why one
// does. Made from the objects of the API server alone, so it needs neither Divvy's API nor more
// rights than to read pods, events, resource claims and GPU nodes. JSON documents as the commands
// of `kubectl divvy` show them. The functions may be called from any thread; they block.
#pragma once

#include <string>

#include "base/result.h"
#include "kube/api_server.h"

namespace divvy::kube {

// One item for each GPU: {node, gpu, uuid, model, memoryBytes, state, simulated, heartbeat, held
// {shareThousandths, memoryBytes}, slices [{namespace, pod, claim, container, shareThousandths,
// memoryBytes, capped, class, state}]}. The state of a slice is "allocated" before its node holds
// it, "held" while it does, and "leaving" when the claim is gone and the node still holds it.
[[nodiscard]] Result<std::string> gpus_document(ApiServer& api);

// One item for each slice, the largest first: those of gpus_document() with {node, gpu, model}.
// `space` empty: of all namespaces.
[[nodiscard]] Result<std::string> slices_document(ApiServer& api, const std::string& space);

// One item for each pod that waits for its slices, by priority and age: {namespace, pod, queue,
// class, priority, asks, dialect, gang, since, reason, message}.
[[nodiscard]] Result<std::string> waiting_document(ApiServer& api, const std::string& space);

// Of one pod: {namespace, pod, state, asks, dialect, queue, containers, claim, node, reason,
// message, slices, events [{time, reason, message}]}. The state is "no request", "waiting",
// "placed" (it may start), or the pod's phase.
[[nodiscard]] Result<std::string> pod_document(ApiServer& api, const std::string& space,
                                               const std::string& pod);

// The status of the CapacityPlan that the controller writes (capacity_plan.h).
[[nodiscard]] Result<std::string> capacity_document(ApiServer& api);

}  // namespace divvy::kube
