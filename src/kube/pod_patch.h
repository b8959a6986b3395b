// The JSON patch that turns a pod into one that waits for its slices: foreign resources out; claim
// or slots, gate and annotation in. Internal to the room; pure.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>

#include "base/result.h"
#include "kube/pod_request.h"

namespace divvy::kube {

struct PodPatchNames {
  std::string_view claim;      // "divvy-" and what makes it unique; not of a pod that goes by slots
  std::string_view scheduler;  // for pods of a foreign one
};

// `pod` is one that read_pod_request() could read. Done on its own result with the same names it is
// empty.
[[nodiscard]] boost::json::array pod_patch(const boost::json::object& pod,
                                           const PodRequest& request, const PodPatchNames& names);

// Refuses references that are not the author's to make: claims with names that Divvy gives, and the
// name `divvy` for another claim.
[[nodiscard]] Status check_claim_references(const boost::json::object& pod, bool asks);

// Refuses slots in a pod that asks for no slice.
[[nodiscard]] Status check_no_slots(const boost::json::object& pod);

}  // namespace divvy::kube
