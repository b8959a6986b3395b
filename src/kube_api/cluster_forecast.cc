// What would become of the line of a cluster: the controller's own queue is made anew in this
// process from the objects of the cluster, and its simulator plays it.
#include <boost/json.hpp>

#include "api/what_if_document.h"
#include "kube/cluster_queue.h"
#include "kube_api/cluster_api.h"
#include "sim/forecast.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;
using kube::ObjectKind;

// Jobs that are still there say how long such jobs take.
sim::Lengths past_lengths(const std::vector<ClusterJob>& jobs) {
  std::vector<sim::PastJob> past;
  for (const ClusterJob& one : jobs) {
    const model::Job& job = one.job;
    if (!model::is_finished(job.state) || !job.started || !job.ended) continue;
    if (*job.ended < *job.started) continue;
    past.push_back({job.owner, std::chrono::ceil<model::Seconds>(*job.ended - *job.started)});
  }
  return sim::learn(std::move(past));
}

}  // namespace

ClusterApi::Answer ClusterApi::what_if(const Asked& asked) {
  DIVVY_TRY(request, api::parse_what_if_request(asked.request.body));
  const std::tuple<ObjectKind, const char*, const char*, bool> kinds[] = {
      {ObjectKind::kNamespace, "/api/v1", "namespaces", true},
      {ObjectKind::kQueue, "/apis/divvy.dev/v1", "queues", false},
      {ObjectKind::kPolicy, "/apis/divvy.dev/v1", "policies", false},
      {ObjectKind::kNode, "/api/v1", "nodes", true},
      {ObjectKind::kGpuNode, "/apis/divvy.dev/v1", "gpunodes", true},
      {ObjectKind::kClaim, "/apis/resource.k8s.io/v1", "resourceclaims", false},
      {ObjectKind::kPod, "/api/v1", "pods", true}};
  DIVVY_TRY(queue, kube::ClusterQueue::create({}));
  const WallTime now = clock_.wall_now();
  ClusterObjects objects;
  for (const auto& [kind, group, resource, needed] : kinds) {
    auto documents = needed ? list(group, resource) : list_if_allowed(group, resource);
    if (!documents) return err(documents.error());
    for (const json::object& document : *documents) {
      // One that is not understood is none for the controller either.
      static_cast<void>(queue->see(kind, document));
    }
    if (kind == ObjectKind::kPod)
      objects.pods = *std::move(documents);
    else if (kind == ObjectKind::kClaim)
      objects.claims = *std::move(documents);
  }
  // What it wants done is not done: only where everybody stands counts. Gangs ask for the objects
  // that say how many they are.
  for (int round = 0; round < 4; ++round) {
    bool asks = false;
    for (const kube::Action& action : queue->decide(now)) {
      if (action.kind != kube::ActionKind::kReadGang) continue;
      asks = true;
      queue->done(action.number, api_.get(action.path), now);
    }
    if (!asks) break;
  }
  DIVVY_TRY(document,
            api::what_if_document(queue->snapshot(api::kMostWaitingSimulated), request,
                                  queue->queue_paths(), past_lengths(read_jobs(objects)), now));
  document["assumptions"].as_array().push_back(
      "queues are those that are objects of the cluster; what the controller's own settings say, "
      "and "
      "who used how much in the past, is not known here");
  return api::answer(200, document);
}

}  // namespace divvy::kube_api
