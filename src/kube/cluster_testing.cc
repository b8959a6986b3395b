#include "kube/cluster_testing.h"

#include <algorithm>
#include <boost/json.hpp>

#include "agent/order_documents.h"
#include "base/check.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/request_annotation.h"
#include "kube/resource_path.h"
#include "kube/time_stamp.h"
#include "model/testing.h"

namespace divvy::kube::testing {
namespace {

namespace json = boost::json;

constexpr const char* kPods = "/api/v1/pods";
constexpr const char* kClaims = "/apis/resource.k8s.io/v1/resourceclaims";
constexpr const char* kGpuNodes = "/apis/divvy.dev/v1/gpunodes";
constexpr const char* kNodes = "/api/v1/nodes";
constexpr const char* kNamespaces = "/api/v1/namespaces";

ResourcePath parsed(const std::string& path) {
  auto made = ResourcePath::parse(path);
  DIVVY_CHECK(made.has_value(), "{}", made.error().message);
  return *std::move(made);
}

std::string text(const json::object& object, std::initializer_list<std::string_view> path) {
  return std::string(text_at(object, path));
}

std::string key_of(const json::object& object) {
  return text(object, {"metadata", "namespace"}) + "/" + text(object, {"metadata", "name"});
}

Allocation allocation_of(const json::object& claim) {
  auto read = read_allocation(claim);
  DIVVY_CHECK(read.has_value() && read->has_value(), "a claim without an allocation");
  return **std::move(read);
}

bool is_allocated(const json::object& claim) {
  return !object_at(claim, {"status", "allocation"}).empty();
}

// Pods of these tests refer to one.
std::string claim_name(const json::object& pod) {
  const json::array& claims = array_at(pod, {"spec", "resourceClaims"});
  return claims.empty() ? "" : text(claims.at(0).as_object(), {"resourceClaimName"});
}

// A claim with an owner is for that pod alone.
bool may_use(const json::object& pod, const json::object& claim) {
  const json::array& owners = array_at(claim, {"metadata", "ownerReferences"});
  return owners.empty() ||
         text(owners.at(0).as_object(), {"uid"}) == text(pod, {"metadata", "uid"});
}

bool by_slots(const json::object& pod) {
  return text_at(pod, {"metadata", "annotations", kRequestAnnotation}).find("\"slots\"") !=
         std::string_view::npos;
}

bool has_ended(const json::object& pod) {
  const std::string_view phase = text_at(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

// Of a pod by slots.
std::optional<Allocation> allocation_in(const json::object& pod) {
  auto read = read_allocation_annotation(pod);
  DIVVY_CHECK(read.has_value(), "{}", read.error().message);
  return *std::move(read);
}

// Where a pod has to go.
std::string pinned_to(const json::object& pod) {
  const json::array& terms =
      array_at(pod, {"spec", "affinity", "nodeAffinity",
                     "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  if (terms.size() != 1) return "";
  const json::array& fields = array_at(terms[0].as_object(), {"matchFields"});
  return fields.empty() ? "" : std::string(fields.back().at("values").as_array().at(0).as_string());
}

}  // namespace

// --- The cluster ---

SimulatedCluster::SimulatedCluster(std::size_t nodes, std::uint32_t gpus) : api_(clock_) {
  for (const char* const space : {"team-a", "team-b"}) {
    static_cast<void>(api_.create(kNamespaces, {{"metadata", json::object{{"name", space}}}}));
  }
  for (std::size_t i = 0; i < nodes; ++i) add_node(fmt::format("node-{}", i), gpus);
  report_nodes();
}

void SimulatedCluster::add_node(const std::string& name, std::uint32_t gpus, json::object labels) {
  const std::size_t number = node_names_.size();
  node_names_.push_back(name);
  room[name] = 1000;
  agent::MachineState& state = machines_[name].state;
  state.node = name;
  state.cpu_milli = 64'000;
  state.ram = gib(256);
  state.smallest_slice = mib(256);
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    agent::MachineGpu one{.uuid = model::test_uuid(number * 100 + gpu), .index = gpu};
    one.model = "NVIDIA H200";
    one.memory = gib(100);
    state.gpus.push_back(std::move(one));
  }
  set_node(name, true, false, std::move(labels));
}

void SimulatedCluster::set_node(const std::string& name, bool ready, bool cordoned,
                                json::object labels, json::array taints) {
  json::object spec;
  if (cordoned) spec["unschedulable"] = true;
  if (!taints.empty()) spec["taints"] = std::move(taints);
  const json::object condition{{"type", "Ready"}, {"status", ready ? "True" : "False"}};
  api_.store().put(parsed(kNodes),
                   {{"metadata", json::object{{"name", name}, {"labels", std::move(labels)}}},
                    {"spec", std::move(spec)},
                    {"status", json::object{{"conditions", json::array{condition}}}}});
}

void SimulatedCluster::remove_node(const std::string& name) {
  static_cast<void>(api_.remove(fmt::format("{}/{}", kNodes, name), {}));
}

void SimulatedCluster::fail_gpu(const std::string& node, std::uint32_t index) {
  agent::MachineGpu& gpu = machines_.at(node).state.gpus.at(index);
  gpu.resting = "it fell off the bus";
  gpu.lost = true;
}

void SimulatedCluster::create(const std::string& collection, const json::object& object) {
  const auto made = api_.create(collection, object);
  DIVVY_CHECK(made.has_value(), "{}", made.error().message);
}

void SimulatedCluster::create_claim(const std::string& name, const std::string& gpu,
                                    const std::string& space) {
  const json::object parameters{
      {"apiVersion", kApiVersion}, {"kind", "SliceRequest"}, {"gpu", gpu}};
  const json::object config{
      {"opaque", json::object{{"driver", kDriver}, {"parameters", parameters}}}};
  const json::object request{{"name", "gpu"},
                             {"exactly", json::object{{"deviceClassName", kDeviceClass}}}};
  const auto made = api_.create(
      fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims", space),
      {{"metadata", json::object{{"name", name}}},
       {"spec", json::object{{"devices", json::object{{"requests", json::array{request}},
                                                      {"config", json::array{config}}}}}}});
  DIVVY_CHECK(made.has_value(), "{}", made.error().message);
}

void SimulatedCluster::create_pod(const TestPod& pod) {
  if (!pod.claim.empty()) {
    const json::object reference{{"name", "mine"}, {"resourceClaimName", pod.claim}};
    const auto made = api_.create(
        fmt::format("/api/v1/namespaces/{}/pods", pod.space),
        {{"metadata", json::object{{"name", pod.name}}},
         {"spec", json::object{{"containers", json::array{json::object{{"name", "main"}}}},
                               {"resourceClaims", json::array{reference}}}}});
    DIVVY_CHECK(made.has_value(), "{}", made.error().message);
    return;
  }
  model::Request::Parts parts;
  parts.gang_size = static_cast<std::uint32_t>(pod.containers.size());
  auto request = model::Request::parse(pod.gpu, std::nullopt, parts);
  DIVVY_CHECK(request.has_value(), "{}", request.error().message);
  model::JobSpec spec(*std::move(request));
  spec.holder = model::Holder::kSlice;
  spec.priority = pod.priority;
  spec.where.members_near = pod.near;
  PodRequest asked(std::move(spec));
  asked.gang = pod.gang;
  asked.dialect = "divvy";
  asked.containers = pod.containers;
  if (pod.slots) asked.way = Way::kSlots;
  json::array containers;
  for (const std::string& container : pod.containers) {
    containers.push_back(json::object{{"name", container}});
  }
  json::object pod_spec = pod.more;
  pod_spec["containers"] = std::move(containers);
  const json::object claim{{"name", kPodClaim}, {"resourceClaimName", "divvy-" + pod.name}};
  if (!pod.slots) pod_spec["resourceClaims"] = json::array{claim};
  if (pod.node.empty()) {
    json::array gates{json::object{{"name", kQueueGate}}};
    if (const json::value* const others = pod.more.if_contains("schedulingGates")) {
      for (const json::value& gate : others->as_array()) gates.push_back(gate);
    }
    pod_spec["schedulingGates"] = std::move(gates);
  } else {
    pod_spec["nodeName"] = pod.node;
  }
  json::object metadata = pod.metadata;
  metadata["name"] = pod.name;
  json::object annotations = object_at(metadata, {"annotations"});
  annotations[kRequestAnnotation] = write_request_annotation(asked);
  metadata["annotations"] = std::move(annotations);
  const auto made = api_.create(fmt::format("/api/v1/namespaces/{}/pods", pod.space),
                                {{"metadata", std::move(metadata)}, {"spec", std::move(pod_spec)}});
  DIVVY_CHECK(made.has_value(), "{}", made.error().message);
}

std::optional<json::object> SimulatedCluster::pod(const std::string& name,
                                                  const std::string& space) {
  auto found = api_.get(pod_path(space, name));
  return found ? std::optional(*std::move(found)) : std::nullopt;
}

std::optional<json::object> SimulatedCluster::claim(const std::string& pod,
                                                    const std::string& space) {
  const auto document = this->pod(pod, space);
  auto found = api_.get(claim_path(space, document ? claim_name(*document) : "divvy-" + pod));
  return found ? std::optional(*std::move(found)) : std::nullopt;
}

std::string SimulatedCluster::phase(const std::string& name, const std::string& space) {
  const auto found = pod(name, space);
  return found ? text(*found, {"status", "phase"}) : "";
}

void SimulatedCluster::delete_pod(const std::string& name, bool force, const std::string& space) {
  json::object options;
  if (force) options["gracePeriodSeconds"] = 0;
  static_cast<void>(api_.remove(pod_path(space, name), options));
}

void SimulatedCluster::finish_pod(const std::string& name, const std::string& space) {
  finished_.insert(space + "/" + name);
}

void SimulatedCluster::put_status(const json::object& object, const std::string& path,
                                  json::object status) {
  json::object changed = object;
  changed["status"] = std::move(status);
  static_cast<void>(api_.replace(path + "/status", changed));
}

bool SimulatedCluster::fits(const std::string& node) const {
  const auto left = room.find(node);
  return left != room.end() && left->second > 0;
}

// Takes an allocation as it is, reserves the claim, binds. Clears the allocation where its node
// is full and another one is not.
void SimulatedCluster::schedule() {
  forget_assumed();
  for (const json::object& pod : api_.list(kPods)) {
    const bool waits = text_at(pod, {"spec", "nodeName"}).empty() &&
                       array_at(pod, {"spec", "schedulingGates"}).empty() &&
                       text_at(pod, {"metadata", "deletionTimestamp"}).empty();
    if (!waits) continue;
    if (by_slots(pod)) {
      schedule_pinned(pod);
      continue;
    }
    const std::string space = text(pod, {"metadata", "namespace"});
    const std::string name = text(pod, {"metadata", "name"});
    const auto claim = this->claim(name, space);
    if (!claim || !is_allocated(*claim)) continue;
    const std::string node = allocation_of(*claim).node;
    json::object status = object_at(*claim, {"status"});
    const std::string path = claim_path(space, claim_name(pod));
    const bool waits_for_word = allocation_of(*claim).awaits_go;
    const bool assumed = assumed_.contains(text(*claim, {"metadata", "uid"}));
    if (assumed && wait_for_word(*claim, path)) continue;
    if (!assumed && !fits(node)) {
      const bool elsewhere = std::ranges::any_of(
          node_names_, [&](const std::string& other) { return other != node && fits(other); });
      if (elsewhere) {
        status.erase("allocation");
        put_status(*claim, path, std::move(status));
        continue;
      }
      json::object told = object_at(pod, {"status"});
      const json::object condition{{"type", "PodScheduled"},
                                   {"status", "False"},
                                   {"reason", "Unschedulable"},
                                   {"lastTransitionTime", time_stamp(now())}};
      if (!told.contains("conditions")) {
        told["conditions"] = json::array{condition};
        put_status(pod, pod_path(space, name), std::move(told));
      }
      continue;
    }
    if (!assumed) {
      json::array reserved = array_at(*claim, {"status", "reservedFor"});
      reserved.push_back(json::object{
          {"resource", "pods"}, {"name", name}, {"uid", text(pod, {"metadata", "uid"})}});
      status["reservedFor"] = std::move(reserved);
      put_status(*claim, path, std::move(status));
      if (waits_for_word) {
        assumed_[text(*claim, {"metadata", "uid"})] = node;
        --room[node];
        continue;
      }
    }
    if (assumed_.erase(text(*claim, {"metadata", "uid"})) != 0) ++room[node];
    const auto bound = api_.create(pod_path(space, name) + "/binding",
                                   {{"target", json::object{{"kind", "Node"}, {"name", node}}}});
    if (bound) --room[node];
  }
}

bool SimulatedCluster::wait_for_word(const json::object& claim, const std::string& path) {
  const auto facts = read_claim(claim);
  DIVVY_CHECK(facts.has_value() && facts->has_value(), "a claim that cannot be read");
  if ((*facts)->no) {
    json::object status = object_at(claim, {"status"});
    for (const char* const field : {"allocation", "reservedFor", "devices"}) status.erase(field);
    put_status(claim, path, std::move(status));
    ++room[assumed_.at(text(claim, {"metadata", "uid"}))];
    assumed_.erase(text(claim, {"metadata", "uid"}));
    return true;
  }
  return !(*facts)->go;
}

// What was reserved for a pod that is not there any more is free again.
void SimulatedCluster::forget_assumed() {
  std::set<std::string> reserved;
  for (const json::object& claim : api_.list(kClaims)) {
    if (is_allocated(claim)) reserved.insert(text(claim, {"metadata", "uid"}));
  }
  for (auto it = assumed_.begin(); it != assumed_.end();) {
    if (reserved.contains(it->first)) {
      ++it;
      continue;
    }
    ++room[it->second];
    it = assumed_.erase(it);
  }
}

void SimulatedCluster::schedule_pinned(const json::object& pod) {
  const std::string path =
      pod_path(text(pod, {"metadata", "namespace"}), text(pod, {"metadata", "name"}));
  const std::string node = pinned_to(pod);
  DIVVY_CHECK(!node.empty(), "a pod by slots has no gate and no node");
  if (fits(node)) {
    const auto bound = api_.create(path + "/binding",
                                   {{"target", json::object{{"kind", "Node"}, {"name", node}}}});
    if (bound) --room[node];
    return;
  }
  json::object told = object_at(pod, {"status"});
  json::array conditions = array_at(pod, {"status", "conditions"});
  for (const json::value& one : conditions) {
    if (text_at(one.as_object(), {"type"}) == "PodScheduled") return;
  }
  conditions.push_back(json::object{{"type", "PodScheduled"},
                                    {"status", "False"},
                                    {"reason", "Unschedulable"},
                                    {"lastTransitionTime", time_stamp(now())}});
  told["conditions"] = std::move(conditions);
  put_status(pod, path, std::move(told));
}

// Claims whose pod is gone or has ended lose their reservation, then their allocation and their
// finalizer.
void SimulatedCluster::manage() {
  api_.store().collect_garbage();
  for (const json::object& claim : api_.list(kClaims)) {
    const std::string space = text(claim, {"metadata", "namespace"});
    const std::string path = claim_path(space, text(claim, {"metadata", "name"}));
    bool used = false;
    std::string bound_pod;
    std::string bound_uid;
    for (const json::object& pod : api_.list(kPods)) {
      if (text(pod, {"metadata", "namespace"}) != space ||
          claim_name(pod) != text(claim, {"metadata", "name"}) || !may_use(pod, claim)) {
        continue;
      }
      const std::string phase = text(pod, {"status", "phase"});
      const bool over = phase == "Succeeded" || phase == "Failed";
      used = used || !over;
      if (!over && !text_at(pod, {"spec", "nodeName"}).empty()) {
        bound_pod = text(pod, {"metadata", "name"});
        bound_uid = text(pod, {"metadata", "uid"});
      }
    }
    const bool reserved = !array_at(claim, {"status", "reservedFor"}).empty();
    if (used) {
      // Bound by somebody else than kube-scheduler.
      if (is_allocated(claim) && !reserved && !bound_pod.empty()) {
        json::object status = object_at(claim, {"status"});
        status["reservedFor"] = json::array{
            json::object{{"resource", "pods"}, {"name", bound_pod}, {"uid", bound_uid}}};
        put_status(claim, path, std::move(status));
      }
      continue;
    }
    const bool deleting = !text_at(claim, {"metadata", "deletionTimestamp"}).empty();
    if (is_allocated(claim) && (reserved || deleting)) {
      json::object status = object_at(claim, {"status"});
      status.erase("allocation");
      status.erase("reservedFor");
      put_status(claim, path, std::move(status));
    } else if (deleting) {
      json::object released = claim;
      released["metadata"].as_object()["finalizers"] = json::array();
      static_cast<void>(api_.replace(path, released));
    }
  }
}

bool SimulatedCluster::prepare(Machine& machine, const std::string& node, const json::object& pod) {
  if (by_slots(pod)) {
    const auto allocation = allocation_in(pod);
    if (!allocation || allocation->node != node) return false;
    const std::string uid = text(pod, {"metadata", "uid"});
    return grant(machine, uid, {text(pod, {"metadata", "namespace"}), "", uid, allocation->slices});
  }
  const auto claim =
      this->claim(text(pod, {"metadata", "name"}), text(pod, {"metadata", "namespace"}));
  if (!claim || !is_allocated(*claim)) return false;
  const Allocation allocation = allocation_of(*claim);
  const json::array& reserved = array_at(*claim, {"status", "reservedFor"});
  if (allocation.node != node || reserved.empty()) return false;
  return grant(machine, text(*claim, {"metadata", "uid"}),
               {text(pod, {"metadata", "namespace"}), text(*claim, {"metadata", "name"}),
                text(pod, {"metadata", "uid"}), allocation.slices});
}

bool SimulatedCluster::grant(Machine& machine, const std::string& uid, Held wanted) {
  if (machine.ledger.contains(uid)) return true;
  std::map<model::GpuUuid, std::pair<std::uint64_t, std::uint64_t>> sums;
  const auto add = [&sums](const AllocatedSlice& one) {
    auto& [share, memory] = sums[one.slice.gpu()];
    share += one.slice.share().thousandths();
    memory += one.slice.memory().count();
  };
  for (const auto& [other, held] : machine.ledger) std::ranges::for_each(held.slices, add);
  std::ranges::for_each(wanted.slices, add);
  for (const agent::MachineGpu& gpu : machine.state.gpus) {
    const auto& [share, memory] = sums[gpu.uuid];
    if (share > Share::kWhole || memory > gpu.memory.count()) {
      ++refused_prepares_;
      return false;
    }
  }
  machine.ledger.emplace(uid, std::move(wanted));
  machine.changed = true;
  return true;
}

void SimulatedCluster::unprepare(Machine& machine, const std::string& pod_uid) {
  if (std::erase_if(machine.ledger,
                    [&](const auto& one) { return one.second.pod_uid == pod_uid; }) != 0) {
    machine.changed = true;
  }
}

void SimulatedCluster::run_kubelets() {
  std::map<std::string, std::set<std::string>> living;  // uids of pods by node
  std::set<std::string> leaving;                        // that went in this round
  for (const json::object& pod : api_.list(kPods)) {
    const std::string node = text(pod, {"spec", "nodeName"});
    if (node.empty() || !machines_.contains(node)) continue;
    Machine& machine = machines_.at(node);
    const std::string uid = text(pod, {"metadata", "uid"});
    const std::string path =
        pod_path(text(pod, {"metadata", "namespace"}), text(pod, {"metadata", "name"}));
    living[node].insert(uid);
    const std::string phase = text(pod, {"status", "phase"});
    if (has_ended(pod)) {
      // By slots the node lets go when it has heard of the end.
      unprepare(machine, uid);
      continue;
    }
    json::object status = object_at(pod, {"status"});
    const bool lets_go_later = by_slots(pod) && machine.ledger.contains(uid);
    if (!text_at(pod, {"metadata", "deletionTimestamp"}).empty()) {
      if (lets_go_later) {
        living[node].erase(uid);
        leaving.insert(uid);
      } else {
        unprepare(machine, uid);
        ++room[node];
      }
      static_cast<void>(api_.remove(path, {{"gracePeriodSeconds", 0}}));
    } else if (phase == "Running" && finished_.erase(key_of(pod)) != 0) {
      if (!lets_go_later) unprepare(machine, uid);
      ++room[node];
      status["phase"] = "Succeeded";
      put_status(pod, path, std::move(status));
    } else if (phase != "Running" && prepare(machine, node, pod)) {
      ran_.insert(key_of(pod));
      status["phase"] = "Running";
      put_status(pod, path, std::move(status));
    }
  }
  // Pods that were deleted by force are ended a little later.
  for (auto& [node, machine] : machines_) {
    std::set<std::string> orphans;
    for (const auto& [uid, held] : machine.ledger) {
      if (!living[node].contains(held.pod_uid) && !leaving.contains(held.pod_uid)) {
        orphans.insert(held.pod_uid);
      }
    }
    for (const std::string& uid : orphans) {
      unprepare(machine, uid);
      ++room[node];
    }
  }
}

void SimulatedCluster::report_nodes() {
  for (auto& [name, machine] : machines_) {
    json::array held;
    for (const auto& [uid, one] : machine.ledger) {
      json::array slices;
      for (const AllocatedSlice& slice : one.slices) {
        slices.push_back(write_slice({slice.device, slice.slice, {}, {}}));
      }
      held.push_back(json::object{{"claimUid", uid},
                                  {"namespace", one.space},
                                  {"claim", one.claim},
                                  {"pod", one.pod_uid},
                                  {"slices", std::move(slices)}});
    }
    const json::value news =
        json::parse(agent::write_message(agent::News(agent::StateChanged{machine.state})));
    api_.store().put(parsed(kGpuNodes),
                     {{"metadata", json::object{{"name", name}}},
                      {"status", json::object{{"heartbeat", time_stamp(now())},
                                              {"state", news.at("body").at("state")},
                                              {"held", std::move(held)}}}});
  }
}

void SimulatedCluster::settle() {
  for (int i = 0; i < 4; ++i) {
    schedule();
    run_kubelets();
    manage();
  }
  report_nodes();
}

}  // namespace divvy::kube::testing
