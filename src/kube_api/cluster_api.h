// The API of Divvy over a cluster, by the words of its own routes (api/routes.h) and made from the
// objects of the API server alone: pods are jobs, GPU nodes machines. Whatever is asked of it, it
// asks Kubernetes with the credentials of whoever asks, so that who they are and what they may is
// for Kubernetes to say (docs/decisions/0033-a-cluster-in-the-words-of-one-machine.md).
//
// Callable from many threads at once; answers that grow refer to it.
#pragma once

#include <atomic>
#include <boost/json/fwd.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/orders.h"
#include "api/answers.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "kube/api_server.h"
#include "kube_api/cluster_jobs.h"
#include "model/job_spec.h"
#include "net/http.h"

namespace divvy::kube_api {

struct JobNames;

class ClusterApi {
 public:
  struct Options {
    std::string space = "default";  // the namespace of jobs that are submitted
    std::string version;
    // Five letters and digits, other ones each time.
    std::function<std::string()> suffix = random_suffix;
    // While output or events are followed: for pods that are started meanwhile, for the end of the
    // job, and for an API server that did not answer.
    std::chrono::milliseconds look_again = std::chrono::seconds(1);
  };
  // Both outlive it. `api` speaks as whoever asks.
  ClusterApi(kube::ApiServer& api, const Clock& clock, Options options);
  // Waits for whoever is in a pod; they end when their callers have hung up.
  ~ClusterApi();
  ClusterApi(const ClusterApi&) = delete;
  ClusterApi& operator=(const ClusterApi&) = delete;

  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request,
                                         const net::Caller& caller);

  [[nodiscard]] static std::string random_suffix();

 private:
  struct Asked {
    const net::HttpRequest& request;
    std::string parameter;  // what stands for the one in braces
  };
  using Answer = Result<net::HttpResponse>;
  using Handler = Answer (ClusterApi::*)(const Asked&);
  using JobHandler = Answer (ClusterApi::*)(const Asked&, const ClusterJob&);
  struct Row;
  static const std::vector<Row>& rows();

  // cluster_api.cc: looking at jobs
  [[nodiscard]] Answer list_jobs(const Asked& asked);
  [[nodiscard]] Answer get_job(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer explain_job(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer list_attempts(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer list_members(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer who_am_i(const Asked& asked);

  // cluster_changes.cc: jobs that are made, changed and ended
  [[nodiscard]] Answer submit_job(const Asked& asked);
  [[nodiscard]] Status add_part(const JobNames& names, std::string_view resource,
                                const boost::json::object& part, std::string_view missing);
  [[nodiscard]] Answer cancel_job(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer suspend_job(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer resume_job(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer requeue_job(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer set_suspended(const ClusterJob& job, bool suspended);

  // cluster_streams.cc: output, and what happens
  [[nodiscard]] Answer read_logs(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer watch_jobs(const Asked& asked);
  [[nodiscard]] Answer list_events(const Asked& asked);

  // cluster_visits.cc: going into pods
  [[nodiscard]] Answer open_channel(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] Answer join_channel(const Asked& asked, const ClusterJob& job);
  [[nodiscard]] static Result<const MemberPod*> find_running(const ClusterJob& job,
                                                             std::uint32_t rank);
  [[nodiscard]] Result<UniqueFd> visit(const agent::StreamOrder& order, const std::string& space,
                                       const std::string& pod, const std::string& container);
  [[nodiscard]] Result<std::int32_t> wait_for_end(const std::string& path,
                                                  const std::string& container);
  [[nodiscard]] Status begin_visit(std::function<void()> work);

  // cluster_machines.cc: GPUs, who holds what, queues
  [[nodiscard]] Answer get_node(const Asked& asked);
  [[nodiscard]] Answer get_stats(const Asked& asked);
  [[nodiscard]] Answer list_gpus(const Asked& asked);
  [[nodiscard]] Answer list_tenants(const Asked& asked);
  [[nodiscard]] Answer list_queues(const Asked& asked);
  [[nodiscard]] Answer report_usage(const Asked& asked);

  // All of a collection ("/api/v1", "pods") that whoever asks may see: of all namespaces, or else
  // of their own.
  [[nodiscard]] Result<std::vector<boost::json::object>> list(const std::string& group,
                                                              const std::string& resource,
                                                              const std::string& query = {});
  // cluster_forecast.cc: what would become of the line
  [[nodiscard]] Answer what_if(const Asked& asked);

  // Of objects that are only a help: none where they may not be seen, or there is no such kind.
  [[nodiscard]] Result<std::vector<boost::json::object>> list_if_allowed(
      const std::string& group, const std::string& resource, const std::string& query = {});
  using Jobs = std::vector<ClusterJob>;
  [[nodiscard]] Result<Jobs> jobs();
  // For a page of the list: the pages behind the first are of the same moment as that one.
  [[nodiscard]] Result<std::shared_ptr<const Jobs>> jobs_behind(std::optional<model::JobId> after);
  [[nodiscard]] Result<ClusterJob> find_job(model::JobId id);
  // As it is now, without looking at any other namespace.
  [[nodiscard]] Result<ClusterJob> look_again(const ClusterJob& job);
  [[nodiscard]] Answer job_answer(int status, model::JobId id);

  kube::ApiServer& api_;
  const Clock& clock_;
  const Options options_;
  std::mutex mutex_;
  std::shared_ptr<const Jobs> listed_;  // guarded; those of the last list that has a next page
  struct Visiting {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  std::mutex visits_mutex_;
  std::list<Visiting> visits_;  // guarded by that one
};

}  // namespace divvy::kube_api
