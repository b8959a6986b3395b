// The names that Divvy writes into Kubernetes' objects (docs/decisions/0022-kubernetes-objects.md).
#pragma once

#include <string_view>

namespace divvy::kube {

// Our driver and our device class, which matches nothing: there is one allocator.
inline constexpr std::string_view kDriver = "divvy.dev";
inline constexpr std::string_view kDeviceClass = "divvy.dev";
// In spec.schedulingGates: the pod waits in Divvy's queue.
inline constexpr std::string_view kQueueGate = "divvy.dev/queue";
// Of a namespace: the queue of its pods.
inline constexpr std::string_view kQueueLabel = "divvy.dev/queue";
// Of a pod, written by the webhook.
inline constexpr std::string_view kRequestAnnotation = "divvy.dev/request";
// Of a pod that goes by slots, written by the controller: what it was given.
inline constexpr std::string_view kAllocationAnnotation = "divvy.dev/allocation";
// Of a pod, written by people: it may be stopped and started elsewhere so that another one fits.
inline constexpr std::string_view kMovableAnnotation = "divvy.dev/movable";
// The resource that such a pod's containers name, one each; node agents offer many of them.
inline constexpr std::string_view kSlotResource = "divvy.dev/slot";
// Conditions of the devices of a gang's claims: kube-scheduler binds its pods when all of them may
// go, and gives their claims back when they may not.
inline constexpr std::string_view kGoCondition = "divvy.dev/go";
inline constexpr std::string_view kNoCondition = "divvy.dev/no";
// In a pod's spec.resourceClaims.
inline constexpr std::string_view kPodClaim = "divvy";
// Of the names of claims that Divvy makes.
inline constexpr std::string_view kClaimPrefix = "divvy-";
// In a pod's conditions: whether it has its slices, and why not.
inline constexpr std::string_view kPlacedCondition = "divvy.dev/Placed";
inline constexpr std::string_view kClaimFinalizer = "resource.kubernetes.io/delete-protection";
// Of documents of ours inside those of others.
inline constexpr std::string_view kApiVersion = "divvy.dev/v1";

}  // namespace divvy::kube
