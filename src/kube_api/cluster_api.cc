#include "kube_api/cluster_api.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <functional>
#include <variant>

#include "api/job_documents.h"
#include "api/request_target.h"
#include "base/base64.h"
#include "base/check.h"
#include "base/text.h"
#include "kube/json_view.h"
#include "kube/lister.h"
#include "kube/resource_path.h"
#include "model/session_label.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;
using net::HttpResponse;

Result<model::JobId> parse_job_id(std::string_view text) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.begin(), text.end(), number);
  if (read.ec == std::errc() && read.ptr == text.end() && number > 0) return model::JobId(number);
  return err(ErrorCode::kInvalidArgument, "\"{}\" is no number of a job; write one like 17",
             escape_for_terminal(text.substr(0, 40)));
}

bool is_below(std::string_view queue, std::string_view above) {
  return queue == above || (queue.starts_with(above) && queue[above.size()] == '/');
}

bool is_wanted(const ClusterJob& one, const store::JobFilter& filter) {
  const model::Job& job = one.job;
  const auto& states = filter.states;
  if (!states.empty() && std::ranges::find(states, job.state) == states.end()) return false;
  if (filter.owner && job.owner != *filter.owner) return false;
  if (filter.queue && !is_below(job.spec.queue, *filter.queue)) return false;
  if (filter.array) return false;
  if (filter.submitted_since && job.submitted < *filter.submitted_since) return false;
  return !filter.submitted_before || job.submitted < *filter.submitted_before;
}

// By its name, with the namespace before it, or by that of a pod of it.
bool is_called(const ClusterJob& one, std::string_view name) {
  const model::Job& job = one.job;
  return job.spec.name == name || fmt::format("{}/{}", one.space(), job.spec.name) == name ||
         one.batch_job == name || std::ranges::find(one.pod_names, name) != one.pod_names.end();
}

}  // namespace

// A route that works here, by the name that it has in the description of the API.
struct ClusterApi::Row {
  std::string_view method;
  std::string_view path;
  std::variant<Handler, JobHandler> handler;
};

const std::vector<ClusterApi::Row>& ClusterApi::rows() {
  using C = ClusterApi;
  static const std::vector<Row> kRows{{"POST", "/v1/jobs", &C::submit_job},
                                      {"GET", "/v1/jobs", &C::list_jobs},
                                      {"GET", "/v1/jobs/{id}", &C::get_job},
                                      {"DELETE", "/v1/jobs/{id}", &C::cancel_job},
                                      {"POST", "/v1/jobs/{id}/suspend", &C::suspend_job},
                                      {"POST", "/v1/jobs/{id}/resume", &C::resume_job},
                                      {"POST", "/v1/jobs/{id}/requeue", &C::requeue_job},
                                      {"GET", "/v1/jobs/{id}/explain", &C::explain_job},
                                      {"GET", "/v1/jobs/{id}/attempts", &C::list_attempts},
                                      {"GET", "/v1/jobs/{id}/members", &C::list_members},
                                      {"GET", "/v1/jobs/{id}/logs", &C::read_logs},
                                      {"POST", "/v1/jobs/{id}/channels", &C::open_channel},
                                      {"GET", "/v1/jobs/{id}/channels", &C::join_channel},
                                      {"GET", "/v1/watch", &C::watch_jobs},
                                      {"GET", "/v1/whoami", &C::who_am_i},
                                      {"GET", "/v1/queues", &C::list_queues},
                                      {"GET", "/v1/usage", &C::report_usage},
                                      {"POST", "/v1/what-if", &C::what_if},
                                      {"GET", "/v1/node", &C::get_node},
                                      {"GET", "/v1/stats", &C::get_stats},
                                      {"GET", "/v1/tenants", &C::list_tenants},
                                      {"GET", "/v1/gpus", &C::list_gpus},
                                      {"GET", "/v1/events", &C::list_events}};
  return kRows;
}

ClusterApi::ClusterApi(kube::ApiServer& api, const Clock& clock, Options options)
    : api_(api), clock_(clock), options_(std::move(options)) {}

std::string ClusterApi::random_suffix() {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::array<unsigned char, 5> bytes{};
  const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
  DIVVY_CHECK(got == static_cast<ssize_t>(bytes.size()), "the kernel has no random bytes");
  std::string suffix;
  for (const unsigned char byte : bytes) suffix += kLetters[byte % kLetters.size()];
  return suffix;
}

HttpResponse ClusterApi::handle(const net::HttpRequest& request, const net::Caller& /*caller*/) {
  // The table of paths is that of every Divvy; what of it works here are the rows above.
  const auto target = api::resolve_target(request);
  if (!target) return target.error();
  const auto row = std::ranges::find_if(rows(), [&](const Row& one) {
    return one.path == target->route->path && one.method == target->route->method;
  });
  if (row == rows().end()) {
    return api::problem(Error{
        ErrorCode::kUnsupported,
        fmt::format("{} {} is for a machine's own divvyd, and this is a cluster; "
                    "docs/kubernetes-commands.md has what works there, and what to do instead",
                    target->route->method, target->route->path)});
  }
  const Asked asked{request, target->parameter};
  Answer answered;
  if (const auto* const plain = std::get_if<Handler>(&row->handler)) {
    answered = (this->**plain)(asked);
  } else {
    const auto id = parse_job_id(asked.parameter);
    auto job = id ? find_job(*id) : Result<ClusterJob>(err(id.error()));
    answered =
        job ? (this->*std::get<JobHandler>(row->handler))(asked, *job) : Answer(err(job.error()));
  }
  return answered ? *std::move(answered) : api::problem(answered.error());
}

Result<std::vector<json::object>> ClusterApi::list(const std::string& group,
                                                   const std::string& resource,
                                                   const std::string& query) {
  const std::string behind = query.empty() ? "" : "?" + query;
  auto all = kube::list_all(api_, fmt::format("{}/{}{}", group, resource, behind));
  if (!all && all.error().code == ErrorCode::kPermissionDenied) {
    auto own =
        kube::list_all(api_, fmt::format("{}/namespaces/{}/{}{}", group,
                                         kube::percent_encode(options_.space), resource, behind));
    // What is in no namespace is not found there, and the refusal says what is missing.
    if (own || own.error().code != ErrorCode::kNotFound) all = std::move(own);
  }
  if (!all) return err(all.error());
  return std::move(all->items);
}

Result<std::vector<json::object>> ClusterApi::list_if_allowed(const std::string& group,
                                                              const std::string& resource,
                                                              const std::string& query) {
  auto all = list(group, resource, query);
  if (all) return all;
  const ErrorCode code = all.error().code;
  if (code == ErrorCode::kPermissionDenied || code == ErrorCode::kNotFound) {
    return std::vector<json::object>();
  }
  return all;
}

Result<std::vector<ClusterJob>> ClusterApi::jobs() {
  ClusterObjects objects;
  DIVVY_TRY(pods, list("/api/v1", "pods"));
  objects.pods = std::move(pods);
  DIVVY_TRY(claims, list_if_allowed("/apis/resource.k8s.io/v1", "resourceclaims"));
  objects.claims = std::move(claims);
  DIVVY_TRY(batch, list_if_allowed("/apis/batch/v1", "jobs",
                                   "labelSelector=" + kube::percent_encode(kJobLabel)));
  objects.jobs = std::move(batch);
  return read_jobs(objects);
}

Result<ClusterJob> ClusterApi::find_job(model::JobId id) {
  DIVVY_TRY(all, jobs());
  const auto is_it = [id](const ClusterJob& one) { return one.job.id == id; };
  const auto found = std::ranges::find_if(all, is_it);
  if (found == all.end()) {
    return err(ErrorCode::kNotFound,
               "there is no job {} in the cluster; `divvy list --all` shows those there are", id);
  }
  if (std::ranges::count_if(all, is_it) > 1) {
    // Numbers are made from names, which others choose: theirs do not stand in the way of one's
    // own.
    const auto is_own = [&](const ClusterJob& one) {
      return is_it(one) && one.space() == options_.space;
    };
    if (std::ranges::count_if(all, is_own) == 1)
      return std::move(*std::ranges::find_if(all, is_own));
    return err(ErrorCode::kFailedPrecondition,
               "two jobs have the number {}; ask with a context of the namespace that it is in",
               id);
  }
  return std::move(*found);
}

Result<ClusterJob> ClusterApi::look_again(const ClusterJob& job) {
  const auto path = [&](std::string_view group, std::string_view resource) {
    std::string text =
        fmt::format("{}/namespaces/{}/{}", group, kube::percent_encode(job.space()), resource);
    if (job.batch_job.empty() || resource == "resourceclaims") return text;
    const std::string selector = fmt::format("{}={}", kJobLabel, job.batch_job);
    return kube::with_parameter(text, "labelSelector", selector);
  };
  ClusterObjects objects;
  DIVVY_TRY(pods, kube::list_all(api_, path("/api/v1", "pods")));
  objects.pods = std::move(pods.items);
  if (auto claims = kube::list_all(api_, path("/apis/resource.k8s.io/v1", "resourceclaims"))) {
    objects.claims = std::move(claims->items);
  }
  if (!job.batch_job.empty()) {
    DIVVY_TRY(batch, kube::list_all(api_, path("/apis/batch/v1", "jobs")));
    objects.jobs = std::move(batch.items);
  }
  for (ClusterJob& one : read_jobs(objects)) {
    if (one.job.id == job.job.id) return std::move(one);
  }
  return err(ErrorCode::kNotFound, "job {} is not in the cluster any more", job.job.id);
}

ClusterApi::Answer ClusterApi::job_answer(int status, model::JobId id) {
  DIVVY_TRY(job, find_job(id));
  return api::answer(status, api::headed("Job", cluster_job_document(job)));
}

Result<std::shared_ptr<const ClusterApi::Jobs>> ClusterApi::jobs_behind(
    std::optional<model::JobId> after) {
  if (after) {
    const std::lock_guard lock(mutex_);
    const bool has_it = listed_ && std::ranges::any_of(*listed_, [&](const ClusterJob& one) {
                          return one.job.id == *after;
                        });
    if (has_it) return listed_;
  }
  DIVVY_TRY(all, jobs());
  return std::make_shared<const Jobs>(std::move(all));
}

ClusterApi::Answer ClusterApi::list_jobs(const Asked& asked) {
  DIVVY_TRY(filter, api::parse_jobs_query(asked.request.query));
  DIVVY_TRY(all, jobs_behind(filter.after));
  std::vector<const ClusterJob*> wanted;
  for (const ClusterJob& one : *all) {
    if (is_wanted(one, filter)) wanted.push_back(&one);
  }
  if (!filter.newest_first) std::ranges::reverse(wanted);
  if (filter.name) {
    std::erase_if(wanted, [&](const ClusterJob* one) { return !is_called(*one, *filter.name); });
    // Who names a job means one of their own, where there is one.
    const auto is_own = [&](const ClusterJob* one) { return one->space() == options_.space; };
    if (std::ranges::any_of(wanted, is_own)) std::erase_if(wanted, std::not_fn(is_own));
  }
  auto first = wanted.begin();
  if (filter.after) {
    first =
        std::ranges::find(wanted, *filter.after, [](const ClusterJob* one) { return one->job.id; });
    if (first == wanted.end()) {
      return err(ErrorCode::kFailedPrecondition,
                 "after: job {} is not in the list any more; begin anew", *filter.after);
    }
    ++first;
  }
  json::array items;
  for (; first != wanted.end() && items.size() < filter.limit; ++first) {
    items.push_back(cluster_job_document(**first));
  }
  json::object document = api::headed("JobList");
  document["next"] = nullptr;
  const bool has_next = first != wanted.end() && !items.empty();
  if (has_next) document["next"] = items.back().at("id");
  document["items"] = std::move(items);
  const std::lock_guard lock(mutex_);
  listed_ = has_next ? all : nullptr;
  return api::answer(200, document);
}

ClusterApi::Answer ClusterApi::get_job(const Asked& /*asked*/, const ClusterJob& job) {
  const bool is_session = job.job.spec.labels.contains(std::string(model::kSessionLabel));
  if (!is_session || job.batch_job.empty()) return api::answer(200, cluster_job_document(job));
  ClusterJob opened = job;
  // Whoever may not read Secrets sees the session all the same.
  const auto secret =
      api_.get(fmt::format("/api/v1/namespaces/{}/secrets/{}", kube::percent_encode(job.space()),
                           kube::percent_encode(job.batch_job)));
  if (secret) {
    const auto token = decode_base64(kube::text_at(*secret, {"data", model::kSessionToken}));
    if (token) opened.job.spec.environment[std::string(model::kSessionToken)] = *token;
  }
  return api::answer(200, cluster_job_document(opened));
}

ClusterApi::Answer ClusterApi::explain_job(const Asked& /*asked*/, const ClusterJob& job) {
  return api::answer(200, api::headed("Explanation", {{"job", job.job.id.value()},
                                                      {"state", to_string(job.job.state)},
                                                      {"waits", wait_document(job)},
                                                      {"details", job.wait_details}}));
}

// Pods of earlier attempts say no more than that they were there.
ClusterApi::Answer ClusterApi::list_attempts(const Asked& /*asked*/, const ClusterJob& job) {
  json::array items;
  if (job.job.attempt > 0) {
    items.push_back(api::attempt_document({job.job.attempt, job.job.members, job.job.started}));
  }
  return api::answer(200, api::listed("AttemptList", std::move(items)));
}

ClusterApi::Answer ClusterApi::list_members(const Asked& /*asked*/, const ClusterJob& job) {
  json::array items;
  for (const MemberPod& pod : job.pods) {
    const auto member = std::ranges::find(job.job.members, pod.rank, &model::JobMember::rank);
    items.push_back({{"rank", pod.rank},
                     {"name", pod.pod},
                     {"container", pod.container},
                     {"node", member == job.job.members.end() ? "" : member->node},
                     {"phase", pod.runs         ? "living"
                               : pod.has_output ? "ended"
                                                : "waiting"},
                     {"pid", 0},
                     {"without", ""}});
  }
  return api::answer(200, api::listed("MemberList", std::move(items)));
}

ClusterApi::Answer ClusterApi::who_am_i(const Asked& /*asked*/) {
  DIVVY_TRY(review, api_.create("/apis/authentication.k8s.io/v1/selfsubjectreviews",
                                {{"apiVersion", "authentication.k8s.io/v1"},
                                 {"kind", "SelfSubjectReview"}}));
  const std::string_view user = kube::text_at(review, {"status", "userInfo", "username"});
  // What a job is counted for is its namespace, so that is the name by which one's own are found.
  return api::answer(200, api::headed("Person", {{"name", options_.space},
                                                 {"role", "user"},
                                                 {"uid", nullptr},
                                                 {"createdUnixMilliseconds", 0},
                                                 {"disabled", false},
                                                 {"kubernetesUser", user},
                                                 {"namespace", options_.space}}));
}

}  // namespace divvy::kube_api
