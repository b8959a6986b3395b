#include <boost/json.hpp>

#include "api/job_documents.h"
#include "base/text.h"
#include "kube_api/cluster_jobs.h"

namespace divvy::kube_api {

namespace json = boost::json;
using model::JobState;

json::object wait_document(const ClusterJob& job) {
  return {{"kind", job.wait_kind},
          {"text", escape_for_terminal(job.wait_text)},
          {"place", nullptr},
          {"inLine", 0},
          {"startsUnixMilliseconds", nullptr}};
}

json::object cluster_job_document(const ClusterJob& job) {
  json::object document = api::job_document(job.job, api::JobDetail::kInside);
  json::array pods;
  for (const MemberPod& pod : job.pods) pods.emplace_back(pod.pod);
  document["pods"] = std::move(pods);
  document["workload"] = nullptr;
  if (!job.owner_kind.empty()) {
    document["workload"] = json::object{{"kind", job.owner_kind}, {"name", job.owner_name}};
  }
  document["waits"] = nullptr;
  const bool waits = job.job.state == JobState::kQueued || job.job.state == JobState::kSuspended;
  if (waits) document["waits"] = wait_document(job);
  document["idleLeftSeconds"] = nullptr;
  document["accounting"] = nullptr;
  return document;
}

}  // namespace divvy::kube_api
