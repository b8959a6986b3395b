#include "kube/cluster_objects.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "agent/order_documents.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/request_annotation.h"
#include "kube/time_stamp.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kLongestGrace{std::chrono::hours(24)};

std::optional<std::size_t> find_named(const json::array& list, std::string_view field,
                                      std::string_view name) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json::object* const one = list[i].if_object();
    if (one != nullptr && text_at(*one, {field}) == name) return i;
  }
  return std::nullopt;
}

std::map<std::string, std::string> texts_of(const json::object& object) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : object) {
    if (value.is_string()) texts.emplace(name, value.get_string().c_str());
  }
  return texts;
}

Toleration read_toleration(const json::object& one) {
  return {std::string(text_at(one, {"key"})), std::string(text_at(one, {"value"})),
          std::string(text_at(one, {"effect"})), text_at(one, {"operator"}) == "Exists"};
}

Result<PodRequest> read_request(const json::object& pod) {
  DIVVY_TRY(request, annotated_request(pod));
  if (request) return *std::move(request);
  return err(ErrorCode::kInvalidArgument,
             "it has the scheduling gate {} and no annotation {}, which Divvy's webhook writes: "
             "create it again, without the gate",
             kQueueGate, kRequestAnnotation);
}

// The names of the claims that a pod refers to; one that is made from a template stands in its
// status as soon as it is there.
std::vector<std::string> claims_of(const json::object& pod) {
  std::vector<std::string> names;
  const auto add = [&names](const json::array& list) {
    for (const json::value& one : list) {
      if (!one.is_object()) continue;
      const std::string_view name = text_at(one.get_object(), {"resourceClaimName"});
      if (!name.empty()) names.emplace_back(name);
    }
  };
  add(array_at(pod, {"spec", "resourceClaims"}));
  add(array_at(pod, {"status", "resourceClaimStatuses"}));
  return names;
}

// Whether all devices of ours that a claim was given have this condition.
bool devices_are(const json::object& claim, const Allocation& allocation,
                 std::string_view condition) {
  const json::array& devices = array_at(claim, {"status", "devices"});
  return std::ranges::all_of(allocation.slices, [&](const AllocatedSlice& slice) {
    return std::ranges::any_of(devices, [&](const json::value& one) {
      const json::object* const device = one.if_object();
      if (device == nullptr || text_at(*device, {"driver"}) != kDriver ||
          text_at(*device, {"device"}) != slice.device) {
        return false;
      }
      const json::array& conditions = array_at(*device, {"conditions"});
      const auto at = find_named(conditions, "type", condition);
      return at && text_at(conditions[*at].get_object(), {"status"}) == "True";
    });
  });
}

}  // namespace

Result<ObjectFacts> read_object(const json::object& object) {
  ObjectFacts facts;
  facts.space = text_at(object, {"metadata", "namespace"});
  facts.name = text_at(object, {"metadata", "name"});
  facts.uid = text_at(object, {"metadata", "uid"});
  const std::string_view version = text_at(object, {"metadata", "resourceVersion"});
  const auto [end, code] =
      std::from_chars(version.data(), version.data() + version.size(), facts.version);
  if (facts.name.empty() || facts.uid.empty() || version.empty() || code != std::errc() ||
      end != version.data() + version.size()) {
    return err(ErrorCode::kDataLoss, "an object without name, uid or resource version");
  }
  facts.created =
      read_time_stamp(text_at(object, {"metadata", "creationTimestamp"})).value_or(WallTime());
  return facts;
}

bool tolerates(const Toleration& toleration, const Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (toleration.key.empty()) return toleration.exists;
  if (toleration.key != taint.key) return false;
  return toleration.exists || toleration.value == taint.value;
}

std::string to_string(const Taint& taint) {
  return fmt::format("{}={}:{}", taint.key, taint.value, taint.effect);
}

Result<std::optional<PodFacts>> read_pod(const json::object& pod) {
  const std::string_view annotation = text_at(pod, {"metadata", "annotations", kRequestAnnotation});
  const json::array& gates = array_at(pod, {"spec", "schedulingGates"});
  const auto gate = find_named(gates, "name", kQueueGate);
  const bool asks = !annotation.empty() || gate;
  std::vector<std::string> refers_to = asks ? std::vector<std::string>() : claims_of(pod);
  if (!asks && refers_to.empty()) return std::optional<PodFacts>();
  DIVVY_TRY(object, read_object(pod));
  PodFacts facts{.object = std::move(object), .request = read_request(pod)};
  facts.refers_to = std::move(refers_to);
  facts.deleting = !text_at(pod, {"metadata", "deletionTimestamp"}).empty();
  const std::string_view phase = text_at(pod, {"status", "phase"});
  facts.succeeded = phase == "Succeeded";
  facts.ended = facts.succeeded || phase == "Failed";
  for (const json::value& one : array_at(pod, {"metadata", "ownerReferences"})) {
    if (!one.is_object() || !true_at(one.get_object(), {"controller"})) continue;
    facts.is_owned = true;
    facts.owner = text_at(one.get_object(), {"uid"});
    facts.owner_kind = text_at(one.get_object(), {"kind"});
  }
  facts.node = text_at(pod, {"spec", "nodeName"});
  facts.gate = gate;
  facts.gated_by_others = gates.size() > (gate ? 1U : 0U);
  const json::array& claims = array_at(pod, {"spec", "resourceClaims"});
  if (const auto claim = find_named(claims, "name", kPodClaim)) {
    facts.claim = text_at(claims[*claim].get_object(), {"resourceClaimName"});
  }
  if (facts.request) facts.gang = read_gang(pod, *facts.request);
  facts.says_preemptible =
      text_at(pod, {"metadata", "annotations", "divvy.dev/preemptible"}) == "true";
  if (const std::string_view movable =
          text_at(pod, {"metadata", "annotations", kMovableAnnotation});
      !movable.empty()) {
    facts.says_movable = movable == "true";
  }
  if (const auto grace = number_at(pod, {"spec", "terminationGracePeriodSeconds"})) {
    facts.grace = std::min(kLongestGrace, std::chrono::seconds(*grace));
  }
  facts.by_slots = facts.request && facts.request->way == Way::kSlots;
  if (facts.by_slots) {
    facts.affinity = object_at(pod, {"spec", "affinity"});
    // The one is written as the other is removed: before that nobody of us wrote it.
    auto allocation = read_allocation_annotation(pod);
    if (allocation && !facts.gate) facts.allocation = *std::move(allocation);
  }
  facts.node_selector = texts_of(object_at(pod, {"spec", "nodeSelector"}));
  for (const json::value& one : array_at(pod, {"spec", "tolerations"})) {
    if (one.is_object()) facts.tolerations.push_back(read_toleration(one.get_object()));
  }
  const json::array& conditions = array_at(pod, {"status", "conditions"});
  facts.has_conditions = !conditions.empty();
  if (const auto at = find_named(conditions, "type", "PodScheduled")) {
    const json::object& scheduled = conditions[*at].get_object();
    if (text_at(scheduled, {"status"}) == "False" &&
        text_at(scheduled, {"reason"}) == "Unschedulable") {
      facts.unschedulable = read_time_stamp(text_at(scheduled, {"lastTransitionTime"}));
    }
  }
  facts.condition = find_named(conditions, "type", kPlacedCondition);
  if (facts.condition) {
    const json::object& ours = conditions[*facts.condition].get_object();
    facts.condition_text =
        fmt::format("{} {}", text_at(ours, {"reason"}), text_at(ours, {"message"}));
  }
  return std::optional(std::move(facts));
}

Result<std::optional<ClaimFacts>> read_claim(const json::object& claim) {
  const json::array& requests = array_at(claim, {"spec", "devices", "requests"});
  const bool ours = std::ranges::any_of(requests, [](const json::value& one) {
    return one.is_object() &&
           text_at(one.get_object(), {"exactly", "deviceClassName"}) == kDeviceClass;
  });
  if (!ours) return std::optional<ClaimFacts>();
  DIVVY_TRY(object, read_object(claim));
  ClaimFacts facts{.object = std::move(object)};
  for (const json::value& one : array_at(claim, {"metadata", "ownerReferences"})) {
    if (!one.is_object()) continue;
    const json::object& owner = one.get_object();
    if (true_at(owner, {"controller"}) && text_at(owner, {"kind"}) == "Pod") {
      facts.owner = text_at(owner, {"uid"});
    }
  }
  facts.by_hand = !facts.object.name.starts_with(kClaimPrefix);
  for (const json::value& one : array_at(claim, {"metadata", "finalizers"})) {
    if (one.is_string() && std::string_view(one.get_string()) == kClaimFinalizer) {
      facts.is_protected = true;
    }
  }
  facts.deleting = !text_at(claim, {"metadata", "deletionTimestamp"}).empty();
  facts.reserved = !array_at(claim, {"status", "reservedFor"}).empty();
  facts.allocated = !object_at(claim, {"status", "allocation"}).empty();
  if (auto allocation = read_allocation(claim)) facts.allocation = *std::move(allocation);
  if (facts.allocation && facts.allocation->awaits_go) {
    facts.go = devices_are(claim, *facts.allocation, kGoCondition);
    facts.no = devices_are(claim, *facts.allocation, kNoCondition);
  }
  facts.document = claim;
  if (json::value* const metadata = facts.document.if_contains("metadata")) {
    if (metadata->is_object()) metadata->get_object().erase("managedFields");
  }
  return std::optional(std::move(facts));
}

Result<GpuNodeFacts> read_gpu_node(const json::object& node) {
  DIVVY_TRY(object, read_object(node));
  GpuNodeFacts facts{.object = std::move(object)};
  facts.heartbeat = text_at(node, {"status", "heartbeat"});
  facts.heard = read_time_stamp(facts.heartbeat);
  // As a message of an agent that tells of its state.
  const json::object news{{"news", "state"},
                          {"body", json::object{{"state", object_at(node, {"status", "state"})}}}};
  DIVVY_TRY(message, agent::read_message(json::serialize(news)));
  facts.state = std::get<agent::StateChanged>(std::get<agent::News>(message)).state;
  for (const json::value& one : array_at(node, {"status", "held"})) {
    if (!one.is_object()) continue;
    HeldClaim held;
    held.claim_uid = text_at(one.get_object(), {"claimUid"});
    held.space = text_at(one.get_object(), {"namespace"});
    held.claim = text_at(one.get_object(), {"claim"});
    for (const json::value& slice : array_at(one.get_object(), {"slices"})) {
      if (!slice.is_object()) continue;
      DIVVY_TRY(read, read_slice(slice.get_object()));
      held.slices.push_back(std::move(read.slice));
    }
    facts.held.push_back(std::move(held));
  }
  return facts;
}

Result<NodeFacts> read_node(const json::object& node) {
  DIVVY_TRY(object, read_object(node));
  NodeFacts facts{.object = std::move(object)};
  facts.unschedulable = true_at(node, {"spec", "unschedulable"});
  facts.labels = texts_of(object_at(node, {"metadata", "labels"}));
  for (const json::value& one : array_at(node, {"spec", "taints"})) {
    if (!one.is_object()) continue;
    Taint taint{std::string(text_at(one.get_object(), {"key"})),
                std::string(text_at(one.get_object(), {"value"})),
                std::string(text_at(one.get_object(), {"effect"}))};
    // What Kubernetes itself writes there is known from the node's conditions.
    if (taint.effect == "PreferNoSchedule" || taint.key.starts_with("node.kubernetes.io/"))
      continue;
    facts.taints.push_back(std::move(taint));
  }
  const json::array& conditions = array_at(node, {"status", "conditions"});
  if (const auto at = find_named(conditions, "type", "Ready")) {
    facts.ready = text_at(conditions[*at].get_object(), {"status"}) == "True";
  }
  return facts;
}

Result<NamespaceFacts> read_namespace(const json::object& space) {
  DIVVY_TRY(object, read_object(space));
  return NamespaceFacts{std::move(object),
                        std::string(text_at(space, {"metadata", "labels", kQueueLabel})),
                        object_at(space, {"metadata"})};
}

}  // namespace divvy::kube
