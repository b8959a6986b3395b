// Where it stands what a pod was given: in its claim, or, where it goes by slots, in the pod
// itself. The latter is one PATCH: allocation, node and gate at once. It cannot be taken back,
// because a pod that was pinned to a node cannot be pinned to another; so it counts until the pod
// has ended or is gone, and from then on as long as its node holds it.
#include <algorithm>
#include <boost/json.hpp>

#include "base/log.h"
#include "kube/cluster_queue.h"
#include "kube/json_view.h"
#include "kube/object_names.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

json::object test(std::string path, json::value value) {
  return {{"op", "test"}, {"path", std::move(path)}, {"value", std::move(value)}};
}

json::object add(std::string path, json::value value) {
  return {{"op", "add"}, {"path", std::move(path)}, {"value", std::move(value)}};
}

// By the node's name and not by its label kubernetes.io/hostname, which may be another. Terms are
// alternatives: each of them has to say it. One without conditions matches nothing, and stays so.
json::object pinned_to(const std::string& node, const json::object& affinity) {
  const json::object field{
      {"key", "metadata.name"}, {"operator", "In"}, {"values", json::array{node}}};
  json::array terms;
  for (const json::value& one :
       array_at(affinity, {"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
                           "nodeSelectorTerms"})) {
    json::object term = one.is_object() ? one.get_object() : json::object();
    json::array fields = array_at(term, {"matchFields"});
    if (!fields.empty() || !array_at(term, {"matchExpressions"}).empty()) {
      fields.push_back(field);
      term["matchFields"] = std::move(fields);
    }
    terms.push_back(std::move(term));
  }
  if (terms.empty()) terms.push_back(json::object{{"matchFields", json::array{field}}});
  json::object pinned = affinity;
  json::object of_nodes = object_at(affinity, {"nodeAffinity"});
  of_nodes["requiredDuringSchedulingIgnoredDuringExecution"] =
      json::object{{"nodeSelectorTerms", std::move(terms)}};
  pinned["nodeAffinity"] = std::move(of_nodes);
  return pinned;
}

}  // namespace

std::optional<ClusterQueue::Given> ClusterQueue::given_to(const Work& work) const {
  if (work.pod.by_slots) {
    if (!work.pod.allocation || work.gone || work.pod.ended) return std::nullopt;
    return Given{&*work.pod.allocation, work.uid(), false, nullptr};
  }
  const ClaimFacts* const claim = claim_of(work);
  if (claim == nullptr || !claim->allocation) return std::nullopt;
  return Given{&*claim->allocation, claim->object.uid, claim->reserved, claim};
}

void ClusterQueue::place_pod(Work& work, WallTime now) {
  const PodFacts& pod = work.pod;
  json::array patch{test("/metadata/uid", json::value(work.uid()))};
  if (pod.gate) {
    const std::string gate = fmt::format("/spec/schedulingGates/{}", *pod.gate);
    patch.push_back(test(gate + "/name", json::value(kQueueGate)));
    // Kubernetes refuses it if somebody has added to the affinity meanwhile.
    patch.push_back(add("/spec/affinity", pinned_to(work.place->node, pod.affinity)));
    patch.push_back(json::object{{"op", "remove"}, {"path", gate}});
  } else if (work.bound()) {
    // Made for a node. Nobody may have given it something meanwhile.
    patch.push_back(
        test("/metadata/resourceVersion", json::value(std::to_string(pod.object.version))));
  } else {
    refuse_start(work, "its scheduling gate was removed before it had a place", now);
    return;
  }
  patch.push_back(add("/metadata/annotations/divvy.dev~1allocation",
                      json::value(write_allocation_annotation(*work.place))));
  work.claim_busy = true;
  emit(ActionKind::kPlacePod, work.uid(), pod_path(pod.object.space, pod.object.name),
       std::move(patch));
}

void ClusterQueue::place_done(Work& work, InFlight& flight, const Result<json::object>& result,
                              WallTime now) {
  const std::string key = work.pod.object.key();
  const bool read = flight.kind == ActionKind::kReadPlace;
  if (!result && is_uncertain(result.error().code)) {
    write_again(work, flight, now);
    return;
  }
  if (!result && !read) {
    // Somebody changed the pod, or this is what became of the same write before.
    work.not_written = result.error().message;
    emit(ActionKind::kReadPlace, work.uid(), pod_path(work.pod.object.space, work.pod.object.name),
         nullptr);
    return;
  }
  work.claim_busy = false;
  // An answer may come after the word that the pod is gone.
  const auto known = uids_.find(key);
  if (known == uids_.end() || known->second != work.uid()) return;
  if (result) {
    work.attempts = 0;
    const auto told = read_object(*result);
    if (told && told->uid != work.uid()) {
      pod_gone(key, std::string(work.uid()));
      return;
    }
    if (const Status seen = see_pod(*result); !seen) {
      log_warning("pod not understood", {{"pod", key}, {"reason", seen.error().message}});
    }
  } else if (result.error().code == ErrorCode::kNotFound) {
    pod_gone(key, std::string(work.uid()));
    return;
  }
  if (!read || work.stage != Stage::kPlanned || !work.lives() || given_to(work)) return;
  log_warning("pod not placed", {{"pod", key}, {"reason", work.not_written}});
  refuse_start(work, std::exchange(work.not_written, {}), now);
}

// kube-scheduler has not taken it yet.
void ClusterQueue::watch_pinned(Work& work, WallTime now) {
  if (!work.pod.unschedulable) return;
  const WallTime due = std::max(*work.pod.unschedulable, work.place->at) + options_.unschedulable;
  if (due > now) {
    wake(work, due);
  } else if (!std::exchange(work.told_stuck, true)) {
    tell_soon(work, now);
  }
}

}  // namespace divvy::kube
