// What the webhook answers: an AdmissionReview in, an AdmissionReview out, as bytes
// (docs/kubernetes-dialects.md). The mutating side turns a pod's request into the annotation, the
// claim and the gate of docs/decisions/0022-kubernetes-objects.md; the validating side keeps
// others' hands off them. No state and no calls elsewhere; callable from many threads at once; any
// bytes are safe to pass.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/pod_request.h"

namespace divvy::kube {

struct AdmissionPolicy {
  DialectPolicy dialects = {};
  // What a namespace says itself, which comes before the above; an error refuses its pods that ask
  // for GPUs. Called from many threads; empty: nobody knows of namespaces.
  std::function<Result<DialectPolicy>(std::string_view)> namespaces = {};
  std::vector<std::string> exempt_namespaces = {"kube-system"};
  // Who makes claims, writes allocations into pods and removes gates
  // ("system:serviceaccount:divvy-system:divvy-controller").
  // Empty: nobody is hindered.
  std::vector<std::string> trusted_users = {};
  // How the pods that are created from here on come to their slices.
  Way way = Way::kClaims;
  // For pods that name a scheduler which belongs to another system.
  std::string scheduler = "default-scheduler";
};

// Called for each claim that a pod is to have: "divvy-" and 20 letters and digits that nobody can
// foresee.
using ClaimNames = std::function<std::string()>;
[[nodiscard]] std::string random_claim_name();

// For webhooks on CREATE of pods. What is not a review is an error (HTTP 400); whatever is wrong
// with the pod is in the answer. Done again on its own result it changes nothing but the claim's
// name: it must not trust a claim that came with a pod, for that may be another pod's.
[[nodiscard]] Result<std::string> review_mutation(std::string_view review,
                                                  const AdmissionPolicy& policy,
                                                  const ClaimNames& claim_names);

// For webhooks on CREATE and UPDATE of pods and on CREATE of resourceclaims.
[[nodiscard]] Result<std::string> review_validation(std::string_view review,
                                                    const AdmissionPolicy& policy);

}  // namespace divvy::kube
