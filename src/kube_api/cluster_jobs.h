// Pods of a cluster as jobs, in the words of the API: pods that belong together are one job with a
// member for each container that has a slice, whoever made them. Pure; any document is safe to
// read.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::kube_api {

// As they were listed. What somebody may not list is empty: then less is known of the pods.
struct ClusterObjects {
  std::vector<boost::json::object> pods;
  std::vector<boost::json::object> claims;
  std::vector<boost::json::object> jobs;  // of `batch/v1`, that `divvy submit` made
};

// Where a member is.
struct MemberPod {
  std::uint32_t rank = 0;
  std::string pod;
  std::string uid;
  std::string container;
  bool has_output = false;  // its container has started
  bool runs = false;
};

struct ClusterJob {
  explicit ClusterJob(model::Job job_) : job(std::move(job_)) {}

  model::Job job;                    // its owner is the namespace
  std::string owner_kind = {};       // "Deployment": what made the pods; empty: nobody did
  std::string owner_name = {};       // "web"
  std::string batch_job = {};        // the name of the Job that `divvy submit` made; empty: foreign
  std::vector<MemberPod> pods = {};  // in the order of its members
  std::vector<std::string> pod_names = {};  // all of them, also of members that were made anew
  // Why it waits, as the controller told the pod; the kind is that of jobs::WaitKind.
  std::string wait_kind = "nothing";
  std::string wait_text = {};
  std::string wait_details = {};

  [[nodiscard]] const std::string& space() const { return job.owner; }
};

// Newest first. Pods that ask nothing of Divvy are in none.
[[nodiscard]] std::vector<ClusterJob> read_jobs(const ClusterObjects& objects);

// As in GET /v1/jobs, with `workload`, `pods` and `waits`.
[[nodiscard]] boost::json::object cluster_job_document(const ClusterJob& job);
[[nodiscard]] boost::json::object wait_document(const ClusterJob& job);

// Of a job's label: the name that was given to `divvy submit`.
inline constexpr std::string_view kNameLabel = "divvy.dev/name";
// Of a Job that `divvy submit` made, and of its pods: the name of the Job.
inline constexpr std::string_view kJobLabel = "divvy.dev/job";

}  // namespace divvy::kube_api
