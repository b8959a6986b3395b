// The annotation `divvy.dev/request`: what the webhook made of a pod's request, and the controller
// reads (docs/decisions/0022-kubernetes-objects.md). Pure, callable from any thread; any bytes are
// safe to pass.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/pod_request.h"

namespace divvy::kube {

[[nodiscard]] std::string write_request_annotation(const PodRequest& request);

// What a pod can ask for and no more: a document that says anything else about its job (a command,
// a limit, another holder) is refused, whoever wrote it. `resources`, `foreign_scheduler` and
// `warnings` are not in it.
[[nodiscard]] Result<PodRequest> read_request_annotation(std::string_view text);

// Of a pod; nothing: it has no such annotation. Containers that the pod does not have are refused.
[[nodiscard]] Result<std::optional<PodRequest>> annotated_request(const boost::json::object& pod);

}  // namespace divvy::kube
