#include "kube/pod_patch.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <string>

#include "kube/admission.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/request_annotation.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

std::string_view text_in(const json::value& item, std::string_view name) {
  return item.is_object() ? text_at(item.get_object(), {name}) : std::string_view{};
}

// A step of a JSON pointer.
std::string step(std::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

class PodPatch {
 public:
  PodPatch(const json::object& pod, const PodRequest& request, const PodPatchNames& names)
      : pod_(pod), request_(request), names_(names) {
    for (const std::string& container : request.containers) slices_[container] = container;
    for (const std::string& container : request.init_containers) {
      slices_[container] = request.containers.front();
    }
  }

  json::array operations() {
    annotate();
    const json::object& spec = object_at(pod_, {"spec"});
    for (const std::string_view list : {"containers", "initContainers"}) {
      const json::array& containers = array_at(spec, {list});
      for (std::size_t i = 0; i < containers.size(); ++i) {
        wire(containers[i].get_object(), fmt::format("/spec/{}/{}", list, i));
      }
    }
    refer_to_claim(spec);
    close_gate(spec);
    if (!request_.foreign_scheduler.empty())
      add("/spec/schedulerName", json::value(names_.scheduler));
    return std::move(operations_);
  }

 private:
  // Also replaces what is there.
  void add(std::string path, json::value value) {
    operations_.push_back(
        json::object{{"op", "add"}, {"path", std::move(path)}, {"value", std::move(value)}});
  }

  // What is not there yet has to be made before something is put into it.
  void make(const json::object& parent, std::string_view name, std::string path) {
    const json::value* value = parent.if_contains(name);
    if (value == nullptr || !value->is_object()) add(std::move(path), json::object{});
  }

  void annotate() {
    const json::object& metadata = object_at(pod_, {"metadata"});
    const std::string text = write_request_annotation(request_);
    if (text_at(metadata, {"annotations", kRequestAnnotation}) == text) return;
    make(pod_, "metadata", "/metadata");
    make(metadata, "annotations", "/metadata/annotations");
    add("/metadata/annotations/" + step(kRequestAnnotation), json::value(text));
  }

  static bool resources_exist(const json::object& container) {
    const json::value* const resources = container.if_contains("resources");
    return resources != nullptr && resources->is_object();
  }

  // The resources of one container.
  void wire(const json::object& container, const std::string& path) {
    const json::object& resources = object_at(container, {"resources"});
    const auto slice = slices_.find(text_at(container, {"name"}));
    const bool by_claim = slice != slices_.end() && request_.way == Way::kClaims;
    const bool by_slot = slice != slices_.end() && request_.way == Way::kSlots;
    bool has_resources = resources_exist(container);
    for (const std::string_view part : {"limits", "requests"}) {
      const json::object& map = object_at(resources, {part});
      const std::string slot = fmt::format("{}/resources/{}/{}", path, part, step(kSlotResource));
      if (by_slot && text_at(map, {kSlotResource}) != "1") {
        if (!has_resources) add(path + "/resources", json::object{});
        has_resources = true;
        make(resources, part, fmt::format("{}/resources/{}", path, part));
        add(slot, "1");
      } else if (!by_slot && map.contains(kSlotResource)) {
        operations_.push_back(json::object{{"op", "remove"}, {"path", slot}});
      }
      for (const std::string& name : request_.resources) {
        if (!map.contains(name)) continue;
        operations_.push_back(json::object{
            {"op", "remove"}, {"path", fmt::format("{}/resources/{}/{}", path, part, step(name))}});
      }
    }
    json::array claims;
    const json::array& old = array_at(resources, {"claims"});
    for (const json::value& claim : old) {
      if (text_in(claim, "name") != kPodClaim) claims.push_back(claim);
    }
    if (by_claim) {
      claims.push_back(json::object{{"name", kPodClaim}, {"request", slice->second}});
    }
    if (claims == old) return;
    if (!has_resources) add(path + "/resources", json::object{});
    add(path + "/resources/claims", std::move(claims));
  }

  void refer_to_claim(const json::object& spec) {
    const json::array& old = array_at(spec, {"resourceClaims"});
    json::array claims;
    for (const json::value& claim : old) {
      if (text_in(claim, "name") != kPodClaim) claims.push_back(claim);
    }
    if (request_.way == Way::kClaims) {
      claims.push_back(json::object{{"name", kPodClaim}, {"resourceClaimName", names_.claim}});
    }
    if (claims != old) add("/spec/resourceClaims", std::move(claims));
  }

  // A pod that was made for a node cannot have gates: its claim or its slot waits instead.
  void close_gate(const json::object& spec) {
    if (!text_at(spec, {"nodeName"}).empty()) return;
    json::array gates = array_at(spec, {"schedulingGates"});
    const auto ours = [](const json::value& gate) { return text_in(gate, "name") == kQueueGate; };
    if (std::ranges::any_of(gates, ours)) return;
    gates.push_back(json::object{{"name", kQueueGate}});
    add("/spec/schedulingGates", std::move(gates));
  }

  const json::object& pod_;
  const PodRequest& request_;
  PodPatchNames names_;
  std::map<std::string, std::string, std::less<>> slices_;  // container → request of the claim
  json::array operations_;
};

}  // namespace

json::array pod_patch(const json::object& pod, const PodRequest& request,
                      const PodPatchNames& names) {
  return PodPatch(pod, request, names).operations();
}

Status check_claim_references(const json::object& pod, bool asks) {
  const json::array& claims = array_at(pod, {"spec", "resourceClaims"});
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const bool given = text_in(claims[i], "resourceClaimName").starts_with(kClaimPrefix);
    const bool entry = text_in(claims[i], "name") == kPodClaim;
    if (given && !(entry && asks)) {
      return err(ErrorCode::kInvalidArgument,
                 "spec.resourceClaims[{}].resourceClaimName: claims that begin with \"{}\" are "
                 "Divvy's, each for one pod; leave it out and ask with divvy.dev/gpu, or make a "
                 "claim of your own",
                 i, kClaimPrefix);
    }
    if (entry && !given && asks) {
      return err(ErrorCode::kInvalidArgument,
                 "spec.resourceClaims[{}].name: \"{}\" is the name of the claim that Divvy makes "
                 "for this pod; give yours another",
                 i, kPodClaim);
    }
  }
  return {};
}

Status check_no_slots(const json::object& pod) {
  for (const std::string_view list : {"containers", "initContainers"}) {
    const json::array& containers = array_at(pod, {"spec", list});
    for (std::size_t i = 0; i < containers.size(); ++i) {
      if (!containers[i].is_object()) continue;
      const json::object& resources = object_at(containers[i].get_object(), {"resources"});
      for (const std::string_view part : {"limits", "requests"}) {
        if (!object_at(resources, {part}).contains(kSlotResource)) continue;
        return err(
            ErrorCode::kInvalidArgument,
            "spec.{}[{}].resources.{}[\"{}\"]: only Divvy's webhook writes it, for pods that "
            "ask for a slice; ask with divvy.dev/gpu instead",
            list, i, part, kSlotResource);
      }
    }
  }
  return {};
}

}  // namespace divvy::kube
