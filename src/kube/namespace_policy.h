// How the pods of a namespace are read, as the namespace says itself, for those who run the
// cluster: labels `divvy.dev/nvidia-gpus: whole` (or `leave`, `replicas`) and
// `divvy.dev/replicas-per-gpu: "4"`, annotation `divvy.dev/left-alone: hami,kai`. Pure, callable
// from any thread; any document is safe to pass.
#pragma once

#include <boost/json/object.hpp>

#include "base/result.h"
#include "kube/pod_request.h"

namespace divvy::kube {

// `usual` with what the namespace says of itself. What cannot be meant is an error that begins with
// the namespace and the field.
[[nodiscard]] Result<DialectPolicy> namespace_policy(const boost::json::object& name_space,
                                                     DialectPolicy usual);

// Dialects by their names, separated by commas. Refused: a name that is none.
[[nodiscard]] Result<std::vector<std::string>> parse_dialects(std::string_view text);

}  // namespace divvy::kube
