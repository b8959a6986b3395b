#include "kube/admission.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/check.h"
#include "kube/admission_review.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/pod_patch.h"
#include "kube/request_annotation.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

std::string_view request_text(const json::object& pod) {
  return text_at(pod, {"metadata", "annotations", kRequestAnnotation});
}

// A namespace that says something wrong is not in the way of pods that ask for nothing.
Result<DialectPolicy> policy_for(const json::object& pod, std::string_view name_space,
                                 const AdmissionPolicy& policy) {
  if (!policy.namespaces) return policy.dialects;
  auto said = policy.namespaces(name_space);
  if (said) return said;
  const auto asked = read_pod_request(pod, policy.dialects);
  if (asked && !*asked && request_text(pod).empty()) return policy.dialects;
  return said;
}

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

// Of a pod that the kubelet made from a file: it runs already, and only shows there.
bool is_mirror(const json::object& pod) {
  return !text_at(pod, {"metadata", "annotations", "kubernetes.io/config.mirror"}).empty();
}

// What the policy of its namespace denies it denies to all: whoever wrote the annotation may have
// left it out.
Status deny_models(const std::vector<std::string>& denied, PodRequest& noted) {
  const model::Request& asked = noted.spec.request;
  model::Request::Parts parts{.share = asked.share(),
                              .memory = asked.memory(),
                              .kind = asked.kind(),
                              .allowed_models = asked.allowed_models(),
                              .denied_models = asked.denied_models(),
                              .topology = asked.topology(),
                              .gang_size = asked.gang_size()};
  for (const std::string& model : denied) {
    if (!contains(parts.denied_models, model)) parts.denied_models.push_back(model);
  }
  DIVVY_TRY(request, model::Request::create(std::move(parts)));
  noted.spec.request = std::move(request);
  return {};
}

// A pod that was here before, because the API server asks again after other webhooks or because it
// was copied from one that runs, has nothing but the annotation left of what its author wrote in
// resources. It says no more than any pod can ask for, so it is a request like any other.
Result<std::optional<PodRequest>> request_of(const json::object& pod, const DialectPolicy& policy) {
  DIVVY_TRY(asked, read_pod_request(pod, policy));
  auto noted = annotated_request(pod);
  if (!asked) {
    if (!noted) return err(std::move(noted).error());
    if (*noted) DIVVY_RETURN_IF_ERROR(deny_models(policy.defaults.models_denied, **noted));
    return *std::move(noted);
  }
  if (noted && *noted && (*noted)->dialect != asked->dialect) {
    return err(ErrorCode::kInvalidArgument,
               "metadata.annotations[\"{}\"]: it was written for dialect {} and the pod speaks {}; "
               "if the pod is a copy, take the annotation out; if not, a LimitRange of this "
               "namespace puts resources of GPUs into every container, and has to leave them",
               kRequestAnnotation, (*noted)->dialect, asked->dialect);
  }
  return asked;
}

bool has_gate(const json::object& pod) {
  return std::ranges::any_of(
      array_at(pod, {"spec", "schedulingGates"}), [](const json::value& gate) {
        return gate.is_object() && text_at(gate.get_object(), {"name"}) == kQueueGate;
      });
}

std::string_view allocation_text(const json::object& pod) {
  return text_at(pod, {"metadata", "annotations", kAllocationAnnotation});
}

Status check_new_pod(const AdmissionReview& review) {
  const bool annotated = !request_text(review.object).empty();
  if (object_at(review.object, {"metadata", "annotations"}).contains(kAllocationAnnotation)) {
    return err(
        ErrorCode::kInvalidArgument,
        "metadata.annotations[\"{}\"]: only Divvy's controller writes it, when the pod has its "
        "place; leave it out",
        kAllocationAnnotation);
  }
  if (!annotated) DIVVY_RETURN_IF_ERROR(check_no_slots(review.object));
  DIVVY_RETURN_IF_ERROR(check_claim_references(review.object, annotated));
  const bool bound = !text_at(review.object, {"spec", "nodeName"}).empty();
  if (annotated && !bound && !has_gate(review.object)) {
    return err(ErrorCode::kInvalidArgument,
               "metadata.annotations[\"{}\"]: only Divvy's webhook writes it, and it has not seen "
               "this pod; leave it out",
               kRequestAnnotation);
  }
  return {};
}

Status check_changed_pod(const AdmissionReview& review, bool trusted) {
  if (request_text(review.object) != request_text(review.old_object)) {
    return err(
        ErrorCode::kInvalidArgument,
        "metadata.annotations[\"{}\"]: what a pod asks for cannot be changed; make a new pod",
        kRequestAnnotation);
  }
  if (!trusted && allocation_text(review.object) != allocation_text(review.old_object)) {
    return err(
        ErrorCode::kInvalidArgument,
        "metadata.annotations[\"{}\"]: only Divvy's controller writes it: what a pod was given "
        "is on its node already; to have it placed elsewhere, make a new pod",
        kAllocationAnnotation);
  }
  if (!trusted && has_gate(review.old_object) && !has_gate(review.object)) {
    return err(ErrorCode::kInvalidArgument,
               "spec.schedulingGates: Divvy removes \"{}\" when the pod has its place; "
               "`kubectl divvy explain` says what it waits for",
               kQueueGate);
  }
  return {};
}

Status check_new_claim(const AdmissionReview& review, bool trusted) {
  for (const std::string_view field : {"name", "generateName"}) {
    const std::string_view name = text_at(review.object, {"metadata", field});
    if (!trusted && name.starts_with(kClaimPrefix)) {
      return err(ErrorCode::kInvalidArgument,
                 "metadata.{}: names that begin with \"{}\" are for claims that Divvy makes; take "
                 "another",
                 field, kClaimPrefix);
    }
  }
  return {};
}

Status check_object(const AdmissionReview& review, const AdmissionPolicy& policy) {
  const bool trusted = policy.trusted_users.empty() || contains(policy.trusted_users, review.user);
  const bool create = review.operation == "CREATE";
  if (!review.subresource.empty()) return {};
  if (review.resource == "resourceclaims") {
    return create ? check_new_claim(review, trusted) : Status{};
  }
  if (review.resource != "pods" || is_mirror(review.object)) return {};
  if (create) return check_new_pod(review);
  return review.operation == "UPDATE" ? check_changed_pod(review, trusted) : Status{};
}

}  // namespace

std::string random_claim_name() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
  static_assert(kLetters.size() == 32);  // so that a byte gives each with the same chance
  std::array<unsigned char, 20> bytes{};
  const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
  DIVVY_CHECK(got == static_cast<ssize_t>(bytes.size()), "the kernel has no random bytes");
  std::string name(kClaimPrefix);
  for (const unsigned char byte : bytes) name += kLetters[byte % kLetters.size()];
  return name;
}

Result<std::string> review_mutation(std::string_view bytes, const AdmissionPolicy& policy,
                                    const ClaimNames& claim_names) {
  DIVVY_TRY(review, read_admission_review(bytes));
  const bool new_pod = review.resource == "pods" && review.subresource.empty() &&
                       review.operation == "CREATE" && !review.object.empty();
  if (!new_pod || contains(policy.exempt_namespaces, review.name_space) ||
      is_mirror(review.object)) {
    return allowed(review);
  }
  const auto dialects = policy_for(review.object, review.name_space, policy);
  if (!dialects) return denied(review, dialects.error().message);
  auto request = request_of(review.object, *dialects);
  if (!request) return denied(review, request.error().message);
  if (Status checked = check_claim_references(review.object, request->has_value()); !checked) {
    return denied(review, checked.error().message);
  }
  if (!*request) return allowed(review);
  (*request)->way = policy.way;
  const std::string claim = policy.way == Way::kClaims ? claim_names() : std::string();
  const json::array operations =
      pod_patch(review.object, **request, {.claim = claim, .scheduler = policy.scheduler});
  return allowed_with(review, operations, (*request)->warnings);
}

Result<std::string> review_validation(std::string_view bytes, const AdmissionPolicy& policy) {
  DIVVY_TRY(review, read_admission_review(bytes));
  if (contains(policy.exempt_namespaces, review.name_space)) return allowed(review);
  if (Status checked = check_object(review, policy); !checked) {
    return denied(review, checked.error().message);
  }
  return allowed(review);
}

}  // namespace divvy::kube
