#include "kube/cluster_view.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <vector>

#include "base/units.h"
#include "kube/allocation.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/request_annotation.h"
#include "kube/resource_path.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::string_view kClaimsPath = "/apis/resource.k8s.io/v1/resourceclaims";
constexpr std::string_view kGpuNodesPath = "/apis/divvy.dev/v1/gpunodes";

std::string collection(std::string_view group, const std::string& space, std::string_view what) {
  if (space.empty()) return fmt::format("{}/{}", group, what);
  return fmt::format("{}/namespaces/{}/{}", group, percent_encode(space), what);
}

// All pages.
Result<std::vector<json::object>> list(ApiServer& api, const std::string& path) {
  std::vector<json::object> objects;
  std::string page = with_parameter(path, "limit", "500");
  while (true) {
    DIVVY_TRY(answer, api.get(page));
    for (const json::value& item : array_at(answer, {"items"})) {
      if (item.is_object()) objects.push_back(item.get_object());
    }
    const std::string_view more = text_at(answer, {"metadata", "continue"});
    if (more.empty()) return objects;
    page = with_parameter(with_parameter(path, "limit", "500"), "continue", more);
  }
}

struct SliceView {
  std::string space;
  std::string pod;
  std::string claim;
  std::string container;
  std::string state;
  json::object parameters;
};

// By the slice's unique name: what claims say, and what nodes hold.
using Slices = std::map<std::string, SliceView, std::less<>>;

std::string owner_pod(const json::object& claim) {
  for (const json::value& owner : array_at(claim, {"metadata", "ownerReferences"})) {
    if (owner.is_object() && text_at(owner.get_object(), {"kind"}) == "Pod") {
      return std::string(text_at(owner.get_object(), {"name"}));
    }
  }
  // A claim that somebody wrote by hand: whoever uses it.
  for (const json::value& user : array_at(claim, {"status", "reservedFor"})) {
    if (user.is_object()) return std::string(text_at(user.get_object(), {"name"}));
  }
  return {};
}

void add_allocated(const json::object& allocation, const SliceView& whose, Slices& slices) {
  for (const json::value& config : array_at(allocation, {"devices", "config"})) {
    if (!config.is_object()) continue;
    const json::object& opaque = object_at(config.get_object(), {"opaque"});
    const json::object& parameters = object_at(opaque, {"parameters"});
    const std::string_view device = text_at(parameters, {"device"});
    if (text_at(opaque, {"driver"}) != kDriver || device.empty()) continue;
    const json::array& requests = array_at(config.get_object(), {"requests"});
    const bool named = !requests.empty() && requests.front().is_string();
    SliceView slice = whose;
    slice.container = named ? std::string(requests.front().get_string()) : "";
    slice.state = "allocated";
    slice.parameters = parameters;
    slices[std::string(device)] = std::move(slice);
  }
}

void add_claim(const json::object& claim, Slices& slices) {
  SliceView whose;
  whose.space = text_at(claim, {"metadata", "namespace"});
  whose.pod = owner_pod(claim);
  whose.claim = text_at(claim, {"metadata", "name"});
  add_allocated(object_at(claim, {"status", "allocation"}), whose, slices);
}

// Of a pod that goes by slots.
void add_pod(const json::object& pod, Slices& slices) {
  const auto allocation = read_allocation_annotation(pod);
  if (!allocation || !*allocation) return;
  SliceView whose;
  whose.space = text_at(pod, {"metadata", "namespace"});
  whose.pod = text_at(pod, {"metadata", "name"});
  add_allocated(write_allocation(**allocation), whose, slices);
}

void add_held(const json::object& gpu_node, Slices& slices) {
  for (const json::value& item : array_at(gpu_node, {"status", "held"})) {
    if (!item.is_object()) continue;
    const json::object& held = item.get_object();
    for (const json::value& slice : array_at(held, {"slices"})) {
      if (!slice.is_object()) continue;
      const std::string device(text_at(slice.get_object(), {"device"}));
      const auto known = slices.find(device);
      if (known != slices.end()) {
        known->second.state = "held";
        continue;
      }
      SliceView found;
      found.space = text_at(held, {"namespace"});
      found.pod = text_at(held, {"pod"});
      found.claim = text_at(held, {"claim"});
      // By slots there is no claim that could be gone.
      found.state = found.claim.empty() ? "held" : "leaving";
      found.parameters = slice.get_object();
      slices[device] = std::move(found);
    }
  }
}

json::object slice_document(const SliceView& slice) {
  const json::object& parameters = slice.parameters;
  return {{"namespace", slice.space},
          {"pod", slice.pod},
          {"claim", slice.claim},
          {"container", slice.container},
          {"shareThousandths", number_at(parameters, {"shareThousandths"}).value_or(0)},
          {"memoryBytes", number_at(parameters, {"memoryBytes"}).value_or(0)},
          {"capped", true_at(parameters, {"capped"})},
          {"class", text_at(parameters, {"class"})},
          {"state", slice.state}};
}

std::string gpu_state(const json::object& gpu) {
  if (true_at(gpu, {"lost"})) return "lost";
  const std::string_view resting = text_at(gpu, {"resting"});
  return resting.empty() ? "ok" : std::string(resting);
}

struct Fleet {
  std::vector<json::object> nodes;
  Slices slices;
};

Result<Fleet> read_fleet(ApiServer& api, const json::object& pod = {}) {
  Fleet fleet;
  DIVVY_TRY(nodes, list(api, std::string(kGpuNodesPath)));
  // A cluster may have none.
  auto claims = list(api, std::string(kClaimsPath));
  if (!claims && claims.error().code != ErrorCode::kNotFound) return err(claims.error());
  fleet.nodes = std::move(nodes);
  std::ranges::sort(fleet.nodes, {}, [](const json::object& node) {
    return std::string(text_at(node, {"metadata", "name"}));
  });
  if (claims) {
    for (const json::object& claim : *claims) add_claim(claim, fleet.slices);
  }
  add_pod(pod, fleet.slices);
  for (const json::object& node : fleet.nodes) add_held(node, fleet.slices);
  return fleet;
}

json::array gpus_of(const Fleet& fleet) {
  json::array items;
  for (const json::object& node : fleet.nodes) {
    for (const json::value& value : array_at(node, {"status", "state", "gpus"})) {
      if (!value.is_object()) continue;
      const json::object& gpu = value.get_object();
      const std::string_view uuid = text_at(gpu, {"uuid"});
      std::uint64_t share = 0;
      std::uint64_t memory = 0;
      json::array slices;
      for (const auto& [device, slice] : fleet.slices) {
        if (text_at(slice.parameters, {"gpu"}) != uuid) continue;
        share += number_at(slice.parameters, {"shareThousandths"}).value_or(0);
        memory += number_at(slice.parameters, {"memoryBytes"}).value_or(0);
        slices.push_back(slice_document(slice));
      }
      items.push_back(
          json::object{{"node", text_at(node, {"metadata", "name"})},
                       {"gpu", number_at(gpu, {"index"}).value_or(0)},
                       {"uuid", uuid},
                       {"model", text_at(gpu, {"model"})},
                       {"memoryBytes", number_at(gpu, {"memory"}).value_or(0)},
                       {"state", gpu_state(gpu)},
                       {"simulated", true_at(node, {"status", "simulated"})},
                       {"heartbeat", text_at(node, {"status", "heartbeat"})},
                       {"held", json::object{{"shareThousandths", share}, {"memoryBytes", memory}}},
                       {"slices", std::move(slices)}});
    }
  }
  return items;
}

std::string items_document(json::array items) {
  return json::serialize(json::object{{"items", std::move(items)}});
}

// "0.3 GPU", "2 GPU with 10GiB", "10GiB", and how many of them.
std::string words(const model::Request& request) {
  std::string text;
  if (request.share() != Share(0)) text = fmt::format("{} GPU", request.share());
  if (request.memory()) {
    text += fmt::format("{}{}", text.empty() ? "" : " with ", *request.memory());
  }
  if (request.gang_size() > 1) text = fmt::format("{} x {}", request.gang_size(), text);
  return text;
}

const json::object& placed_condition(const json::object& pod) {
  static const json::object kNone;
  for (const json::value& condition : array_at(pod, {"status", "conditions"})) {
    if (condition.is_object() && text_at(condition.get_object(), {"type"}) == kPlacedCondition) {
      return condition.get_object();
    }
  }
  return kNone;
}

bool waits(const json::object& pod) {
  return std::ranges::any_of(array_at(pod, {"spec", "schedulingGates"}), [](const auto& gate) {
    return gate.is_object() && text_at(gate.get_object(), {"name"}) == kQueueGate;
  });
}

std::string claim_of(const json::object& pod) {
  for (const json::value& claim : array_at(pod, {"spec", "resourceClaims"})) {
    if (claim.is_object() && text_at(claim.get_object(), {"name"}) == kPodClaim) {
      return std::string(text_at(claim.get_object(), {"resourceClaimName"}));
    }
  }
  return {};
}

// What the annotation says; what cannot be read is said instead.
void describe_request(const json::object& pod, json::object& document) {
  const auto request = annotated_request(pod);
  if (!request) {
    document["asks"] = nullptr;
    document["message"] = request.error().message;
    return;
  }
  if (!*request) return;
  const model::JobSpec& spec = (*request)->spec;
  document["asks"] = words(spec.request);
  document["dialect"] = (*request)->dialect;
  document["queue"] = spec.queue;
  document["class"] = to_string(spec.job_class);
  document["priority"] = spec.priority;
  json::array containers;
  for (const std::string& name : (*request)->containers) containers.emplace_back(name);
  document["containers"] = std::move(containers);
  if ((*request)->gang) document["gang"] = (*request)->gang->name;
}

json::object waiting_pod(const json::object& pod) {
  const json::object& condition = placed_condition(pod);
  json::object document{{"namespace", text_at(pod, {"metadata", "namespace"})},
                        {"pod", text_at(pod, {"metadata", "name"})},
                        {"since", text_at(pod, {"metadata", "creationTimestamp"})},
                        {"reason", text_at(condition, {"reason"})},
                        {"message", text_at(condition, {"message"})},
                        {"priority", 0}};
  describe_request(pod, document);
  return document;
}

json::array events_of(const std::vector<json::object>& events, std::string_view uid) {
  std::vector<json::object> found;
  for (const json::object& event : events) {
    const std::string_view reason = text_at(event, {"reason"});
    if (text_at(event, {"involvedObject", "uid"}) != uid || !reason.starts_with("Divvy")) continue;
    std::string_view time = text_at(event, {"lastTimestamp"});
    if (time.empty()) time = text_at(event, {"eventTime"});
    found.push_back(
        json::object{{"time", time}, {"reason", reason}, {"message", text_at(event, {"message"})}});
  }
  // Times of one form are in the order of their letters.
  std::ranges::sort(
      found, {}, [](const json::object& event) { return std::string(text_at(event, {"time"})); });
  return json::array(found.begin(), found.end());
}

}  // namespace

Result<std::string> gpus_document(ApiServer& api) {
  DIVVY_TRY(fleet, read_fleet(api));
  return items_document(gpus_of(fleet));
}

namespace {

json::array slices_of(const Fleet& fleet, const std::string& space) {
  std::vector<json::object> slices;
  for (const json::value& item : gpus_of(fleet)) {
    const json::object& gpu = item.get_object();
    for (const json::value& slice : array_at(gpu, {"slices"})) {
      json::object document = slice.get_object();
      if (!space.empty() && text_at(document, {"namespace"}) != space) continue;
      for (const std::string_view field : {"node", "gpu", "model"}) document[field] = gpu.at(field);
      slices.push_back(std::move(document));
    }
  }
  std::ranges::sort(slices, {}, [](const json::object& slice) {
    const auto share =
        static_cast<std::int64_t>(number_at(slice, {"shareThousandths"}).value_or(0));
    return std::tuple(-share, std::string(text_at(slice, {"namespace"})),
                      std::string(text_at(slice, {"pod"})),
                      std::string(text_at(slice, {"container"})));
  });
  return json::array(slices.begin(), slices.end());
}

}  // namespace

Result<std::string> slices_document(ApiServer& api, const std::string& space) {
  DIVVY_TRY(fleet, read_fleet(api));
  return items_document(slices_of(fleet, space));
}

Result<std::string> waiting_document(ApiServer& api, const std::string& space) {
  DIVVY_TRY(pods, list(api, collection("/api/v1", space, "pods")));
  std::vector<json::object> waiting;
  for (const json::object& pod : pods) {
    if (waits(pod)) waiting.push_back(waiting_pod(pod));
  }
  std::ranges::sort(waiting, {}, [](const json::object& pod) {
    return std::tuple(-pod.at("priority").to_number<std::int64_t>(),
                      std::string(text_at(pod, {"since"})), std::string(text_at(pod, {"pod"})));
  });
  return items_document(json::array(waiting.begin(), waiting.end()));
}

Result<std::string> pod_document(ApiServer& api, const std::string& space,
                                 const std::string& name) {
  const std::string pods = collection("/api/v1", space, "pods");
  DIVVY_TRY(pod, api.get(pods + "/" + percent_encode(name)));
  json::object document = waiting_pod(pod);
  const std::string claim = claim_of(pod);
  const std::string_view phase = text_at(pod, {"status", "phase"});
  const std::string_view node = text_at(pod, {"spec", "nodeName"});
  document["claim"] = claim;
  document["node"] = node;
  std::string state(phase);
  if (!document.contains("asks")) {
    state = "no request";
  } else if (waits(pod)) {
    state = "waiting";
  } else if (node.empty()) {
    state = "placed";
  }
  document["state"] = state;
  json::array slices;
  if (document.contains("asks")) {
    DIVVY_TRY(fleet, read_fleet(api, pod));
    for (const json::value& slice : slices_of(fleet, space)) {
      const json::object& one = slice.get_object();
      const bool mine =
          claim.empty() ? text_at(one, {"pod"}) == name : text_at(one, {"claim"}) == claim;
      if (mine) slices.push_back(slice);
    }
  }
  document["slices"] = std::move(slices);
  DIVVY_TRY(events, list(api, collection("/api/v1", space, "events")));
  document["events"] = events_of(events, text_at(pod, {"metadata", "uid"}));
  return json::serialize(document);
}

Result<std::string> capacity_document(ApiServer& api) {
  const auto plan = api.get("/apis/divvy.dev/v1/capacityplans/divvy");
  if (!plan && plan.error().code == ErrorCode::kNotFound) {
    return err(ErrorCode::kNotFound,
               "there is no CapacityPlan divvy: the controller makes it when their CRD is there "
               "(kubectl apply -f deploy/helm/divvy/crds)");
  }
  if (!plan) return err(plan.error());
  return json::serialize(object_at(*plan, {"status"}));
}

}  // namespace divvy::kube
