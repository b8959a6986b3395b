#include "kube/action.h"

#include <fmt/format.h>

namespace divvy::kube {

std::string_view to_string(ActionKind kind) {
  switch (kind) {
    case ActionKind::kCreateClaim:
      return "create claim";
    case ActionKind::kProtectClaim:
      return "protect claim";
    case ActionKind::kWriteAllocation:
      return "write allocation";
    case ActionKind::kClearAllocation:
      return "clear allocation";
    case ActionKind::kTellDevices:
      return "tell devices";
    case ActionKind::kReadClaim:
      return "read claim";
    case ActionKind::kPlacePod:
      return "place pod";
    case ActionKind::kReadPlace:
      return "read place of pod";
    case ActionKind::kRemoveGate:
      return "remove gate";
    case ActionKind::kReadPod:
      return "read pod";
    case ActionKind::kTryEviction:
      return "try eviction";
    case ActionKind::kEvictPod:
      return "evict pod";
    case ActionKind::kReadGang:
      return "read gang";
    case ActionKind::kSetCondition:
      return "set condition";
    case ActionKind::kWriteQueue:
      return "write queue";
    case ActionKind::kWritePolicy:
      return "write policy";
    case ActionKind::kCreateCapacityPlan:
      return "create capacity plan";
    case ActionKind::kWriteCapacityPlan:
      return "write capacity plan";
    case ActionKind::kTellEvent:
      return "tell event";
  }
  return "";
}

bool is_uncertain(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
    case ErrorCode::kCancelled:
    case ErrorCode::kIo:
    case ErrorCode::kDataLoss:
    case ErrorCode::kInternal:
    case ErrorCode::kResourceExhausted:  // not done, and it may be tried again
      return true;
    default:
      return false;
  }
}

Result<boost::json::object> carry_out(ApiServer& server, const Action& action) {
  switch (action.kind) {
    case ActionKind::kCreateClaim:
    case ActionKind::kTryEviction:
    case ActionKind::kEvictPod:
    case ActionKind::kCreateCapacityPlan:
    case ActionKind::kTellEvent:
      return server.create(action.path, action.body.as_object());
    case ActionKind::kProtectClaim:
    case ActionKind::kWriteAllocation:
    case ActionKind::kClearAllocation:
    case ActionKind::kTellDevices:
      return server.replace(action.path, action.body.as_object());
    case ActionKind::kReadClaim:
    case ActionKind::kReadPlace:
    case ActionKind::kReadPod:
    case ActionKind::kReadGang:
      return server.get(action.path);
    case ActionKind::kPlacePod:
    case ActionKind::kRemoveGate:
    case ActionKind::kSetCondition:
    case ActionKind::kWriteQueue:
    case ActionKind::kWritePolicy:
    case ActionKind::kWriteCapacityPlan:
      return server.patch(action.path, PatchType::kJson, action.body);
  }
  return err(ErrorCode::kInternal, "an action of no kind");
}

// Names in Kubernetes have no character that a path could not have.
std::string pod_path(std::string_view space, std::string_view name) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", space, name);
}

std::string claim_path(std::string_view space, std::string_view name) {
  return fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", space, name);
}

}  // namespace divvy::kube
