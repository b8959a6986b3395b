// What a resource claim asks for that somebody wrote by hand: requests for the device class
// `divvy.dev`, with parameters {"apiVersion": "divvy.dev/v1", "kind": "SliceRequest", "gpu": "0.3",
// "gpuMemory": "10Gi", "cap": false, "class": "batch", "models": ["H200"], "topology": "any"} in
// its config (docs/decisions/0022-kubernetes-objects.md). Without parameters a request is for one
// whole GPU. Pure, callable from any thread; any document is safe to pass.
#pragma once

#include <boost/json/object.hpp>
#include <optional>

#include "base/result.h"
#include "kube/pod_request.h"

namespace divvy::kube {

// Nothing: no request of it is for Divvy. `containers` are the names of its requests, `dialect` is
// "claim"; the queue, and what it does not say itself, are the policy's. What cannot be meant is an
// error that begins with the field (`spec.devices.config[0].opaque.parameters.gpu: ...`).
[[nodiscard]] Result<std::optional<PodRequest>> read_claim_request(const boost::json::object& claim,
                                                                   const DialectPolicy& policy);

}  // namespace divvy::kube
