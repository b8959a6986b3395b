// Jobs that are made, changed and ended: those of `divvy submit`. Whatever made other pods would
// make them anew, so that is what has to be asked.
#include <boost/json.hpp>

#include "api/job_documents.h"
#include "api/query.h"
#include "base/text.h"
#include "kube/json_view.h"
#include "kube/resource_path.h"
#include "kube_api/cluster_api.h"
#include "kube_api/submit_documents.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;

std::string in_space(std::string_view group, std::string_view space, std::string_view resource,
                     std::string_view name = {}) {
  std::string path =
      fmt::format("{}/namespaces/{}/{}", group, kube::percent_encode(space), resource);
  if (!name.empty()) path += "/" + kube::percent_encode(name);
  return path;
}

// The same for the same text (FNV-1a): by it a request that is sent twice makes one job.
std::uint64_t fingerprint(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::string suffix_of(std::string_view key) {
  return fmt::format("{:016x}", fingerprint(key)).substr(0, 12);
}

// Whom to ask, and how, about pods that were made by something else.
Error foreign(const ClusterJob& job, std::string_view what) {
  if (job.owner_kind.empty()) {
    return {ErrorCode::kUnsupported,
            fmt::format("{} is a pod that Divvy did not make, and it cannot be {}; `divvy delete` "
                        "ends it",
                        job.job.spec.name, what)};
  }
  return {ErrorCode::kUnsupported,
          fmt::format("{0} belongs to {1} {2}, which would make its pods anew; it is not {3} here "
                      "but there: kubectl -n {4} edit {5} {2}",
                      job.job.spec.name, job.owner_kind, job.owner_name, what, job.space(),
                      to_lower(job.owner_kind))};
}

Status check_unfinished(const ClusterJob& job) {
  if (!model::is_finished(job.job.state)) return {};
  return err(ErrorCode::kFailedPrecondition, "job {} has ended already: {}", job.job.id,
             to_string(job.job.state));
}

}  // namespace

// Without it the members of a Job that is there would wait for ever.
Status ClusterApi::add_part(const JobNames& names, std::string_view resource,
                            const json::object& part, std::string_view missing) {
  const auto made = api_.create(in_space("/api/v1", names.space, resource), part);
  if (made || made.error().code == ErrorCode::kAlreadyExists) return {};
  const Status removed = api_.remove(in_space("/apis/batch/v1", names.space, "jobs", names.name),
                                     {{"propagationPolicy", "Background"}});
  if (!removed) return err(with_context(removed.error(), made.error().message));
  return err(with_context(made.error(), missing));
}

ClusterApi::Answer ClusterApi::submit_job(const Asked& asked) {
  DIVVY_TRY(query, api::Query::parse(asked.request.query));
  DIVVY_TRY(dry_run, query.flag("dry_run"));
  DIVVY_RETURN_IF_ERROR(query.nothing_left());
  DIVVY_TRY(spec, api::parse_new_job(asked.request.body));
  const std::string_view key = asked.request.header("idempotency-key");
  JobNames names{.space = options_.space, .name = {}, .fingerprint = {}};
  names.name = object_name(spec, key.empty() ? options_.suffix() : suffix_of(key));
  if (!key.empty()) names.fingerprint = fmt::format("{:016x}", fingerprint(asked.request.body));
  DIVVY_TRY(document, batch_job(spec, names));
  const std::string jobs_path = in_space("/apis/batch/v1", names.space, "jobs");
  if (dry_run) {
    DIVVY_RETURN_IF_ERROR(api_.create(kube::with_parameter(jobs_path, "dryRun", "All"), document));
    json::object nothing = api::headed("JobList");
    nothing["items"] = json::array();
    nothing["dryRun"] = true;
    return api::answer(200, nothing);
  }
  auto made = api_.create(jobs_path, document);
  int status = 201;
  if (!made && made.error().code == ErrorCode::kAlreadyExists && !key.empty()) {
    made = api_.get(in_space("/apis/batch/v1", names.space, "jobs", names.name));
    status = 200;
    if (made && kube::text_at(*made, {"metadata", "annotations", kFingerprintAnnotation}) !=
                    names.fingerprint) {
      return err(ErrorCode::kAlreadyExists,
                 "this Idempotency-Key came before, with another job; use a new one");
    }
  }
  if (!made) return err(made.error());
  const std::string uid(kube::text_at(*made, {"metadata", "uid"}));
  if (const auto service = rank_service(spec, names, uid)) {
    DIVVY_RETURN_IF_ERROR(
        add_part(names, "services", *service, "the names of its members could not be made"));
  }
  if (const auto secret = session_secret(spec, names, uid)) {
    DIVVY_RETURN_IF_ERROR(
        add_part(names, "secrets", *secret, "the Secret with its token could not be made"));
  }
  ClusterObjects objects;
  objects.jobs.push_back(*std::move(made));
  json::array items;
  for (const ClusterJob& job : read_jobs(objects)) items.push_back(cluster_job_document(job));
  json::object list = api::headed("JobList");
  list["items"] = std::move(items);
  return api::answer(status, list);
}

ClusterApi::Answer ClusterApi::cancel_job(const Asked& /*asked*/, const ClusterJob& job) {
  const bool submitted = !job.batch_job.empty();
  if (!submitted && (!job.owner_kind.empty() || job.pod_names.size() != 1)) {
    if (job.owner_kind.empty()) {
      return err(ErrorCode::kUnsupported,
                 "{} are {} pods that Divvy did not make; end them by kubectl -n {} delete pod {}",
                 job.job.spec.name, job.pod_names.size(), job.space(),
                 fmt::join(job.pod_names, " "));
    }
    return err(foreign(job, "ended"));
  }
  const bool ended = model::is_finished(job.job.state);
  if (!ended) {
    const Status removed =
        submitted ? api_.remove(in_space("/apis/batch/v1", job.space(), "jobs", job.batch_job),
                                {{"propagationPolicy", "Background"}})
                  : api_.remove(in_space("/api/v1", job.space(), "pods", job.pod_names.front()),
                                {{"preconditions", json::object{{"uid", job.pods.front().uid}}}});
    if (!removed && removed.error().code != ErrorCode::kNotFound) return err(removed.error());
  }
  // What is deleted is gone from Kubernetes, which remembers nothing of it.
  json::object document = cluster_job_document(job);
  if (!ended) document["state"] = to_string(model::JobState::kCancelled);
  return api::answer(200, document);
}

ClusterApi::Answer ClusterApi::set_suspended(const ClusterJob& job, bool suspended) {
  DIVVY_RETURN_IF_ERROR(check_unfinished(job));
  if (job.batch_job.empty()) return err(foreign(job, suspended ? "suspended" : "resumed"));
  DIVVY_RETURN_IF_ERROR(api_.patch(in_space("/apis/batch/v1", job.space(), "jobs", job.batch_job),
                                   kube::PatchType::kMerge,
                                   json::object{{"spec", json::object{{"suspend", suspended}}}}));
  return job_answer(200, job.job.id);
}

ClusterApi::Answer ClusterApi::suspend_job(const Asked& /*asked*/, const ClusterJob& job) {
  return set_suspended(job, true);
}

ClusterApi::Answer ClusterApi::resume_job(const Asked& /*asked*/, const ClusterJob& job) {
  return set_suspended(job, false);
}

// By eviction, as whoever makes way: its Job makes them anew, and does not count it as a failure.
ClusterApi::Answer ClusterApi::requeue_job(const Asked& /*asked*/, const ClusterJob& job) {
  DIVVY_RETURN_IF_ERROR(check_unfinished(job));
  if (job.batch_job.empty()) return err(foreign(job, "requeued"));
  for (const MemberPod& pod : job.pods) {
    if (!pod.runs) continue;
    json::object eviction{
        {"apiVersion", "policy/v1"},
        {"kind", "Eviction"},
        {"metadata", json::object{{"name", pod.pod}, {"namespace", job.space()}}},
        {"deleteOptions", json::object{{"preconditions", json::object{{"uid", pod.uid}}}}}};
    const auto evicted =
        api_.create(in_space("/api/v1", job.space(), "pods", pod.pod) + "/eviction", eviction);
    if (!evicted && evicted.error().code != ErrorCode::kNotFound) return err(evicted.error());
  }
  return job_answer(200, job.job.id);
}

}  // namespace divvy::kube_api
