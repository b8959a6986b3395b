// What the controller wants done at the API server, as a value: one request each. Made by
// ClusterQueue, carried out by whoever has a connection; the answer goes back to the queue with the
// action's number.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/api_server.h"

namespace divvy::kube {

enum class ActionKind {
  kCreateClaim,
  kProtectClaim,  // with the finalizer that an allocated claim has to have
  kWriteAllocation,
  kClearAllocation,
  kTellDevices,  // that the pods of a gang may be bound, or may not
  kReadClaim,
  kPlacePod,   // by slots: allocation, node and gate in one
  kReadPlace,  // the pod, after that did not work
  kRemoveGate,
  kReadPod,
  kTryEviction,  // whether its disruption budget allows it
  kEvictPod,
  kReadGang,  // the object that says of how many pods a gang is
  kSetCondition,
  kWriteQueue,   // the status of a Queue
  kWritePolicy,  // likewise of a Policy
  kCreateCapacityPlan,
  kWriteCapacityPlan,  // its status
  kTellEvent,
};
[[nodiscard]] std::string_view to_string(ActionKind kind);
// Whether pods wait for it; what only tells people comes after that.
[[nodiscard]] inline bool is_urgent(ActionKind kind) { return kind < ActionKind::kSetCondition; }

// Of the answer to a write: whether nobody knows what became of it.
[[nodiscard]] bool is_uncertain(ErrorCode code);

struct Action {
  std::uint64_t number = 0;
  ActionKind kind = ActionKind::kReadClaim;
  std::string path;
  boost::json::value body = {};
};

// Of a request without a body in its answer: an empty object. Blocks; called from any thread.
[[nodiscard]] Result<boost::json::object> carry_out(ApiServer& server, const Action& action);

// "/api/v1/namespaces/a/pods/b"
[[nodiscard]] std::string pod_path(std::string_view space, std::string_view name);
[[nodiscard]] std::string claim_path(std::string_view space, std::string_view name);

}  // namespace divvy::kube
